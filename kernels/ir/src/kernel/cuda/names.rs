//! Identifiers of emitted code: the names of the source where they can be kept, unique, and free of what C++ and CUDA reserve.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::kernel::Kernel;
use crate::scalar::{BinaryOp, UnaryOp};

/// Words that would be a keyword, a type, a variable or a macro in emitted code, and some functions that it calls.
const RESERVED: [&str; 4] = [
    // Keywords of C++20.
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept const \
     consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else \
     enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr \
     operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof static static_assert \
     static_cast struct switch template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual \
     void volatile wchar_t while xor xor_eq",
    // Names of CUDA and of compilers.
    "threadIdx blockIdx blockDim gridDim warpSize dim3 size_t linux unix i386",
    // Names of emitted code.
    "ir launch params thread rest main std read_inputs write_outputs has_read",
    // Functions that are called besides those of the table of operations.
    "abs isinf isnan max min atomicAdd atomicAnd atomicCAS atomicExch atomicMax atomicMin atomicOr atomicXor",
];

/// The identifiers that are taken in a scope.
pub(super) struct Scope {
    /// Each with the suffix that was tried last.
    taken: HashMap<String, u32>,
}

impl Scope {
    pub(super) fn new() -> Self {
        Self { taken: HashMap::new() }
    }

    /// A scope in which some identifiers are taken.
    pub(super) fn with(taken: &[&str]) -> Self {
        Self { taken: taken.iter().map(|name| ((*name).to_owned(), 1)).collect() }
    }

    /// A free identifier like `wanted`, which is taken from now on.
    pub(super) fn take(&mut self, wanted: &str) -> String {
        let base = identifier(wanted);
        let mut name = base.clone();
        let mut suffix = self.taken.get(&base).copied().unwrap_or(1);
        while is_reserved(&name) || self.taken.contains_key(&name) {
            suffix += 1;
            name = if base.ends_with('_') { format!("{base}{suffix}") } else { format!("{base}_{suffix}") };
        }
        self.taken.insert(base, suffix);
        self.taken.insert(name.clone(), 1);
        name
    }
}

/// Letters, digits and single underscores, a letter first: other identifiers may be reserved. Names in capitals become lower case,
/// because macros of the C library are in capitals.
fn identifier(wanted: &str) -> String {
    let mut name = String::with_capacity(wanted.len());
    for c in wanted.chars() {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        if c != '_' || !name.ends_with('_') {
            name.push(c);
        }
    }
    let name = name.trim_start_matches('_');
    let is_macro =
        name.bytes().filter(u8::is_ascii_uppercase).count() > 1 && !name.bytes().any(|c| c.is_ascii_lowercase());
    let name = if is_macro { name.to_ascii_lowercase() } else { name.to_owned() };
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("v{name}") }
}

static RESERVED_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let words = RESERVED.iter().flat_map(|words| words.split_ascii_whitespace());
    words.chain(UnaryOp::cuda_calls()).chain(BinaryOp::cuda_calls()).collect()
});

/// Functions of f32 end in f.
fn is_reserved(name: &str) -> bool {
    let of_f64 = name.strip_suffix('f').unwrap_or(name);
    RESERVED_WORDS.contains(name) || RESERVED_WORDS.contains(of_f64)
}

/// The identifiers of a kernel.
pub(super) struct Names {
    /// The name of each parameter.
    pub(super) params: Vec<String>,
    /// The name of each component of each parameter: after a dot, or on its own.
    pub(super) components: Vec<Vec<String>>,
    /// The name of each local variable.
    pub(super) locals: Vec<String>,
    /// Returns a name for an item that has none in the source.
    pub(super) scope: Scope,
}

impl Names {
    pub(super) fn new(kernel: &Kernel) -> Self {
        let mut scope = Scope::new();
        let params = kernel.params.iter().map(|param| scope.take(&param.name)).collect();
        let components = kernel
            .params
            .iter()
            .map(|param| {
                let mut fields = Scope::new();
                let component = |one: &crate::kernel::Component| fields.take(&one.name.replace('.', "_"));
                param.ty.element().components.iter().map(component).collect()
            })
            .collect();
        let locals = kernel.locals.iter().map(|local| scope.take(&local.name)).collect();
        Self { params, components, locals, scope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_unless_they_clash_or_are_reserved() {
        let mut scope = Scope::new();
        let mut take = |wanted: &str| scope.take(wanted);
        assert_eq!(take("alpha"), "alpha");
        assert_eq!(take("alpha"), "alpha_2");
        assert_eq!(take("float"), "float_2");
        assert_eq!(take("sinf"), "sinf_2");
        assert_eq!(take("N"), "N");
        assert_eq!(take("M_PI"), "m_pi");
        assert_eq!(take("X1"), "X1");
        assert_eq!(take("__half"), "half");
        assert_eq!(take("9"), "v9");
        assert_eq!(take(""), "v");
        assert_eq!(take("a); trap("), "a_trap_");
    }
}
