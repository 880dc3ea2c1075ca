//! Declarations that kernels and their launches share, written once for Rust and CUDA: constants, sizes, structs that kernels take by value
//! or share in device memory, and tables of instances.

/// Declares constants, functions, structs and instances in Rust and, as the header `HEADER` at `path`, the same ones in CUDA C++:
///
/// ```ignore
/// launch_structs! {
///     pub(super) header LAUNCH = "launch/example.cuh";
///
///     /// Rows per block.
///     pub(super) const BLOCK_ROWS: usize = 32;
///     /// Dynamic shared memory.
///     pub(super) const fn shared_bytes(stages: usize) -> usize { stages * BLOCK_ROWS * 128 }
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
/// The value of a constant is `u32::MAX`, or an expression that means the same in both languages: of literals without suffixes, operators,
/// parentheses, and constants and functions declared before. So is the body of a function. In CUDA, a `usize` is a `u32`, and a
/// constant is an enumerator, since a `constexpr` would take device memory. As the type of a
/// field, a literal is a pointer, spelled as CUDA spells it: an address (`u64`) in Rust. A named type is a number or a struct. What is declared
/// before is declared here or in a header that this one includes: `header LAUNCH = "launch/example.cuh", includes "launch/other.cuh";`.
/// Both languages lay fields out in order with C's alignment, raised by `align` to that of vector loads, and `Pod` refuses padding, so
/// sizes and offsets agree. The module lists `LAUNCH` among its headers, and its source includes the path. Where a source derives a size by
/// itself, from the layout of its shared memory, it asserts that the size is the declared one.
///
/// Instances of a kernel for f16 and bf16 are rows of a table:
///
/// ```ignore
///     instances TILES: [Tile; 2], KERNELS = GEMM("gemm", &[size_of::<Params>()]) {
///         "128x256": { rows: 128, columns: 256 } cuda { min_blocks: 1 } rust { cost: 100 },
///         "64x64": { rows: 64, columns: 64 } cuda { min_blocks: 0 } rust { cost: 224 },
///     }
/// ```
///
/// In Rust, `TILES` has a `Tile` for each row: the fields that follow the name and those of `rust`, and `kernels`, which are `gemm_f16_128x256` and
/// `gemm_bf16_128x256`. `KERNELS` has the kernels of all rows, by element type. In CUDA, `GEMM(INSTANCE)` expands to `INSTANCE(128x256)
/// INSTANCE(64x64)`, and `GEMM_128x256_rows` to 128, as do the other fields and those of `cuda`. A source that defines its kernels by such an
/// `INSTANCE` does not change with the table.
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
        $vis:vis const fn $function:ident($arg:ident: $arg_type:tt $(, $args:ident: $arg_types:tt)*) -> $type:tt { $body:expr }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis const fn $function($arg: $arg_type $(, $args: $arg_types)*) -> $type { $body }
        $crate::cuda::launch_structs!(
            @items $header
            [
                $($text)*
                "__host__ __device__ constexpr ", $crate::cuda::launch_structs!(@cuda $type), " ", stringify!($function), "(",
                $crate::cuda::launch_structs!(@declare $arg $arg_type),
                $(", ", $crate::cuda::launch_structs!(@declare $args $arg_types),)*
                ") { return ", stringify!($body), "; }\n",
            ]
            $($rest)*
        );
    };
    (
        @items $header:tt [$($text:tt)*]
        $(#[$meta:meta])*
        $vis:vis const $NAME:ident: u32 = u32::MAX;
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis const $NAME: u32 = u32::MAX;
        $crate::cuda::launch_structs!(
            @items $header [$($text)* "enum : u32 { ", stringify!($NAME), " = 0xffffffffu };\n",] $($rest)*
        );
    };
    (
        @items $header:tt [$($text:tt)*]
        $(#[$meta:meta])*
        $vis:vis const $NAME:ident: $type:tt = $value:expr;
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis const $NAME: $type = $value;
        $crate::cuda::launch_structs!(
            @items $header
            [
                $($text)*
                "enum : ", $crate::cuda::launch_structs!(@cuda $type), " { ", stringify!($NAME), " = ", stringify!($value), " };\n",
            ]
            $($rest)*
        );
    };
    (
        @items $header:tt [$($text:tt)*]
        $(#[$meta:meta])*
        $vis:vis instances $TABLE:ident: [$Row:ident; $count:literal], $KERNELS:ident = $MACRO:ident($kernel:literal, $params:expr) {
            $($name:literal: { $($field:ident: $value:literal),+ }
                $(cuda { $($cuda_field:ident: $cuda_value:literal),+ })?
                $(rust { $($rust_field:ident: $rust_value:expr),+ })?,)+
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis const $TABLE: [$Row; $count] = [
            $($Row {
                kernels: [
                    $crate::cuda::Kernel { name: concat!($kernel, "_f16_", $name), params: $params },
                    $crate::cuda::Kernel { name: concat!($kernel, "_bf16_", $name), params: $params },
                ],
                $($field: $value,)+
                $($($rust_field: $rust_value,)+)?
            },)+
        ];
        $vis const $KERNELS: [[$crate::cuda::Kernel; $count]; 2] = [
            [$($crate::cuda::Kernel { name: concat!($kernel, "_f16_", $name), params: $params },)+],
            [$($crate::cuda::Kernel { name: concat!($kernel, "_bf16_", $name), params: $params },)+],
        ];
        $crate::cuda::launch_structs!(
            @items $header
            [
                $($text)*
                "\n#define ", stringify!($MACRO), "(INSTANCE)", $(" INSTANCE(", $name, ")",)+ "\n",
                $(
                    $("#define ", stringify!($MACRO), "_", $name, "_", stringify!($field), " ", $value, "\n",)+
                    $($("#define ", stringify!($MACRO), "_", $name, "_", stringify!($cuda_field), " ", $cuda_value, "\n",)+)?
                )+
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

/// Names that generated headers among these sources declare, and that a macro of another one hides. A second declaration of another kind
/// does not compile.
#[cfg(test)]
pub(crate) fn hidden_by_macros(sources: &[super::Source]) -> Vec<&'static str> {
    let constant = |line: &'static str| line.strip_prefix("enum : ")?.split_once(" { ")?.1.split(' ').next();
    // Written ones begin with a comment.
    let is_generated =
        |source: &super::Source| source.text.starts_with("#pragma once\n#include \"common/common.cuh\"\n");
    let macros = |source: &super::Source| {
        let defined = source.text.lines().filter_map(|line| line.trim_start().strip_prefix("#define "));
        defined.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
    };
    let (generated, written): (Vec<&super::Source>, Vec<&super::Source>) =
        sources.iter().partition(|source| is_generated(source));
    let constants = generated.iter().flat_map(|source| source.text.lines().filter_map(constant));
    let names: Vec<_> = constants.chain(generated.iter().flat_map(|source| macros(source))).collect();
    written.into_iter().flat_map(macros).filter(|name| names.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::hidden_by_macros;
    use crate::cuda::{Kernel, Source};

    super::launch_structs! {
        header LAUNCH = "launch/test.cuh";

        const NONE: u32 = u32::MAX;
        const ROWS: usize = 32;
        const BYTES: usize = 2 * (ROWS + 8) * 4;
        const fn shared_bytes(stages: usize, rows: usize) -> usize { stages * rows * 4 + BYTES }

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
    fn constants_functions_and_fields_are_the_same_in_both_languages() {
        let expected = "#pragma once\n#include \"common/common.cuh\"\n\n\
                        enum : u32 { NONE = 0xffffffffu };\nenum : u32 { ROWS = 32 };\n\
                        enum : u32 { BYTES = 2 * (ROWS + 8) * 4 };\n\
                        __host__ __device__ constexpr u32 shared_bytes(u32 stages, u32 rows) { return stages * rows * 4 + BYTES; }\n\n\
                        struct __align__(16) Inner {\n    const float* address;\n    u64 length;\n};\n\n\
                        struct Outer {\n    Inner inner;\n    u32 count;\n    float weights[3];\n};\n";
        assert_eq!((LAUNCH.path, LAUNCH.text), ("launch/test.cuh", expected));
        assert_eq!((NONE, BYTES, shared_bytes(2, 3)), (u32::MAX, 320, 344));
        let outer = Outer { inner: Inner { address: 1, length: 3 }, count: 2, weights: [0.0; 3] };
        assert_eq!(
            (bytemuck::bytes_of(&outer).len(), outer.inner.address, outer.inner.length, outer.count, outer.weights[0]),
            (32, 1, 3, 2, 0.0)
        );
    }

    struct Tile {
        rows: usize,
        cost: usize,
        kernels: [Kernel; 2],
    }

    super::launch_structs! {
        header TILES_LAUNCH = "launch/tiles.cuh";

        instances TILES: [Tile; 2], KERNELS = GEMM("gemm", &[8, 4]) {
            "128x64": { rows: 128 } cuda { min_blocks: 2 } rust { cost: 3 },
            "64x64": { rows: 64 } cuda { min_blocks: 0 } rust { cost: 5 },
        }
    }

    #[test]
    fn a_row_of_a_table_is_an_instance_in_both_languages() {
        let expected = "#pragma once\n#include \"common/common.cuh\"\n\n\n#define GEMM(INSTANCE) INSTANCE(128x64) INSTANCE(64x64)\n\
                        #define GEMM_128x64_rows 128\n#define GEMM_128x64_min_blocks 2\n\
                        #define GEMM_64x64_rows 64\n#define GEMM_64x64_min_blocks 0\n";
        assert_eq!(TILES_LAUNCH.text, expected);
        assert_eq!(TILES.map(|tile| (tile.rows, tile.cost)), [(128, 3), (64, 5)]);
        let names = KERNELS.map(|kernels| kernels.map(|kernel| kernel.name));
        assert_eq!(names, [["gemm_f16_128x64", "gemm_f16_64x64"], ["gemm_bf16_128x64", "gemm_bf16_64x64"]]);
        assert_eq!(TILES[1].kernels, [0, 1].map(|dtype: usize| KERNELS[dtype][1]));
    }

    #[test]
    fn a_macro_that_hides_a_generated_constant_is_found() {
        let written = |text| Source { path: "written.cuh", text };
        assert!(hidden_by_macros(&[LAUNCH, TILES_LAUNCH, written("#define ROWS_A_BLOCK ROWS\n")]).is_empty());
        assert_eq!(hidden_by_macros(&[LAUNCH, written("int x;\n#define ROWS 16\n")]), ["ROWS"]);
    }
}
