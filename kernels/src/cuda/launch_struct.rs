//! Structs that kernels take by value or share in device memory, and constants, written once for Rust and CUDA.

/// Declares constants and structs in Rust and, as the header `HEADER` at `path`, the same ones in CUDA C++:
///
/// ```ignore
/// launch_structs! {
///     pub(super) header LAUNCH = "launch/example.cuh";
///
///     /// Rows per block.
///     pub(super) const BLOCK_ROWS: usize = 32;
///
///     /// Parameters of `example`.
///     pub(super) align(16) struct Example {
///         pub(super) rows: "const float*",
///         pub(super) count: u32,
///         pub(super) weights: [f32; 3],
///     }
/// }
/// ```
///
/// A constant is a literal, `u32::MAX`, or one constant times a literal; a `usize` is a `u32` in CUDA. As the type of a
/// field, a literal is a pointer, spelled as CUDA spells it: an address (`u64`) in Rust. A named type is a number or a
/// struct declared before, here or in a header that this one includes:
/// `header LAUNCH = "launch/example.cuh", includes "launch/other.cuh";`. Both languages lay fields out in order with C's
/// alignment, raised by `align` to that of vector loads, and `Pod` refuses padding, so sizes and offsets agree. The module
/// lists `LAUNCH` among its headers, and its source includes the path.
macro_rules! launch_structs {
    (@rust $pointer:literal) => { u64 };
    (@rust [$element:tt; $count:literal]) => { [$crate::cuda::launch_structs!(@rust $element); $count] };
    (@rust $name:ident) => { $name };

    (@cuda $pointer:literal) => { $pointer };
    (@cuda usize) => { "u32" };
    (@cuda i32) => { "int" };
    (@cuda f32) => { "float" };
    (@cuda f64) => { "double" };
    (@cuda $name:ident) => { stringify!($name) };

    (@value u32::MAX) => { "0xffffffffu" };
    (@value $value:tt) => { stringify!($value) };
    (@value $value:tt * $factor:tt) => { concat!(stringify!($value), " * ", stringify!($factor)) };

    (@declare $field:ident [$element:tt; $count:literal]) => {
        concat!($crate::cuda::launch_structs!(@cuda $element), " ", stringify!($field), "[", $count, "]")
    };
    (@declare $field:ident $type:tt) => {
        concat!($crate::cuda::launch_structs!(@cuda $type), " ", stringify!($field))
    };

    (@items [$header_vis:vis $HEADER:ident $path:literal] [$($text:tt)*]) => {
        $header_vis const $HEADER: $crate::cuda::Source =
            $crate::cuda::Source { path: $path, text: concat!($($text)*) };
    };
    (
        @items $header:tt [$($text:tt)*]
        $(#[$meta:meta])*
        $vis:vis const $NAME:ident: $type:tt = $value:tt $(:: $item:ident)? $(* $factor:tt)?;
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis const $NAME: $type = $value $(:: $item)? $(* $factor)?;
        $crate::cuda::launch_structs!(
            @items $header
            [
                $($text)*
                "constexpr ", $crate::cuda::launch_structs!(@cuda $type), " ", stringify!($NAME), " = ",
                $crate::cuda::launch_structs!(@value $value $(:: $item)? $(* $factor)?), ";\n",
            ]
            $($rest)*
        );
    };
    (
        @items $header:tt [$($text:tt)*]
        $(#[$meta:meta])*
        $vis:vis $(align($align:tt))? struct $Name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:tt,)*
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[repr(C $(, align($align))?)]
        #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
        $vis struct $Name {
            $($(#[$field_meta])* $field_vis $field: $crate::cuda::launch_structs!(@rust $type),)*
        }
        $crate::cuda::launch_structs!(
            @items $header
            [
                $($text)*
                "\nstruct ", $("__align__(", $align, ") ",)? stringify!($Name), " {\n",
                $("    ", $crate::cuda::launch_structs!(@declare $field $type), ";\n",)*
                "};\n",
            ]
            $($rest)*
        );
    };

    ($header_vis:vis header $HEADER:ident = $path:literal $(, includes $($include:literal),+)?; $($items:tt)*) => {
        $crate::cuda::launch_structs!(
            @items [$header_vis $HEADER $path]
            [
                "#pragma once\n#include \"common/common.cuh\"\n",
                $($("#include \"", $include, "\"\n",)+)?
                "\n",
            ]
            $($items)*
        );
    };
}
pub(crate) use launch_structs;

#[cfg(test)]
mod tests {
    super::launch_structs! {
        header LAUNCH = "launch/test.cuh";

        const NONE: u32 = u32::MAX;
        const ROWS: usize = 32;
        const BYTES: usize = ROWS * 4;

        align(16) struct Inner {
            address: "const float*",
            length: u64,
        }

        struct Outer {
            inner: Inner,
            count: u32,
            weights: [f32; 3],
        }
    }

    #[test]
    fn constants_and_fields_are_the_same_in_both_languages() {
        let expected = "#pragma once\n#include \"common/common.cuh\"\n\n\
                        constexpr u32 NONE = 0xffffffffu;\nconstexpr u32 ROWS = 32;\n\
                        constexpr u32 BYTES = ROWS * 4;\n\n\
                        struct __align__(16) Inner {\n    const float* address;\n    u64 length;\n};\n\n\
                        struct Outer {\n    Inner inner;\n    u32 count;\n    float weights[3];\n};\n";
        assert_eq!((LAUNCH.path, LAUNCH.text), ("launch/test.cuh", expected));
        assert_eq!((NONE, BYTES), (u32::MAX, 128));
        let outer = Outer { inner: Inner { address: 1, length: 3 }, count: 2, weights: [0.0; 3] };
        assert_eq!(
            (bytemuck::bytes_of(&outer).len(), outer.inner.address, outer.inner.length, outer.count, outer.weights[0]),
            (32, 1, 3, 2, 0.0)
        );
    }
}
