//! Description of a GEMM: shapes, types and precision, and their form for cuBLASLt.

use cudarc::cublaslt::sys::{cublasComputeType_t, cudaDataType_t};

/// Type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// binary64.
    F64,
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// Signed 8-bit integer.
    I8,
    /// Signed 32-bit integer; a product's output only.
    I32,
}

impl Element {
    /// Size in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 1,
        }
    }

    pub(super) const fn data_type(self) -> cudaDataType_t {
        match self {
            Self::F64 => cudaDataType_t::CUDA_R_64F,
            Self::F32 => cudaDataType_t::CUDA_R_32F,
            Self::F16 => cudaDataType_t::CUDA_R_16F,
            Self::Bf16 => cudaDataType_t::CUDA_R_16BF,
            Self::I8 => cudaDataType_t::CUDA_R_8I,
            Self::I32 => cudaDataType_t::CUDA_R_32I,
        }
    }
}

/// The arithmetic that multiplies f32 inputs. f64 accumulates in f64, i8 in i32, and all others in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compute {
    /// Inputs are multiplied in full f32 precision.
    #[default]
    F32,
    /// f32 inputs are rounded to TF32, with a 10-bit fraction.
    Tf32,
}

/// Operation applied to a product before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// Nothing.
    #[default]
    None,
    /// Adds a bias per column, in the output type.
    Bias,
    /// Adds a bias, then applies GELU in its tanh approximation.
    GeluBias,
}

/// A GEMM of row-major matrices, `c[m, n] = alpha * a[m, k] * b[k, n] + beta * c`, optionally batched.
///
/// Types: f64 to f64, f32 to f32, f16 to f16 or f32, bf16 to bf16 or f32, i8 to i32. cuBLASLt multiplies i8 only with `b`
/// stored as `[n, k]`, `a` as `[m, k]`, and `n`, `k` and all strides multiples of 4.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `b` and `c`.
    pub n: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// Type of `a` and `b`.
    pub input: Element,
    /// Type of `c`.
    pub output: Element,
    /// Precision.
    pub compute: Compute,
    /// True if `a` is stored as `[k, m]`.
    pub transpose_a: bool,
    /// True if `b` is stored as `[n, k]`, as are the weights of a linear layer or the rows of a corpus.
    pub transpose_b: bool,
    /// Row stride of `a` in elements; 0 if its rows are contiguous.
    pub lda: usize,
    /// Row stride of `b`, likewise.
    pub ldb: usize,
    /// Row stride of `c`, likewise.
    pub ldc: usize,
    /// Batch size; at least 1.
    pub batch: usize,
    /// Batch stride of `a` in elements.
    pub stride_a: usize,
    /// Batch stride of `b`.
    pub stride_b: usize,
    /// Batch stride of `c`.
    pub stride_c: usize,
    /// Scales the product: f64 for f64, an integer for i8, f32 for all others.
    pub alpha: f64,
    /// Scales the previous content of `c`, which is not read if 0; the type of `alpha`.
    pub beta: f64,
    /// Operation applied before writing.
    pub epilogue: Epilogue,
}

impl Product {
    /// One product of dense matrices in f32, `b` stored as `[k, n]`.
    pub fn new(m: usize, n: usize, k: usize) -> Self {
        Self {
            m,
            n,
            k,
            input: Element::F32,
            output: Element::F32,
            compute: Compute::F32,
            transpose_a: false,
            transpose_b: false,
            lda: 0,
            ldb: 0,
            ldc: 0,
            batch: 1,
            stride_a: 0,
            stride_b: 0,
            stride_c: 0,
            alpha: 1.0,
            beta: 0.0,
            epilogue: Epilogue::None,
        }
    }

    /// One product of dense matrices of these types.
    pub fn of(input: Element, output: Element, m: usize, n: usize, k: usize) -> Self {
        Self { input, output, ..Self::new(m, n, k) }
    }

    /// Returns true if there is no output.
    pub(super) const fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batch == 0
    }

    /// The types as the library names them, or the reason why it has no such product.
    pub(super) fn types(&self) -> Result<ProductTypes, String> {
        use Element::{Bf16, F16, F32, F64, I8, I32};
        let (compute, scale) = match (self.input, self.output) {
            (F64, F64) => (cublasComputeType_t::CUBLAS_COMPUTE_64F, F64),
            (F32, F32) if self.compute == Compute::Tf32 => (cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, F32),
            (F32, F32) | (F16, F16 | F32) | (Bf16, Bf16 | F32) => (cublasComputeType_t::CUBLAS_COMPUTE_32F, F32),
            (I8, I32) => (cublasComputeType_t::CUBLAS_COMPUTE_32I, I32),
            (input, output) => return Err(format!("no product of {input:?} gives {output:?}")),
        };
        if self.epilogue != Epilogue::None && scale != F32 {
            return Err(format!("no epilogue {:?} for a product of {:?}", self.epilogue, self.input));
        }
        let scalar = |name, value| scalar(scale, value).ok_or_else(|| format!("{name} is {value}, which is no i32"));
        Ok(ProductTypes { compute, scale, alpha: scalar("alpha", self.alpha)?, beta: scalar("beta", self.beta)? })
    }

    /// Describes the error in shapes and strides.
    pub(super) fn check_shapes(&self) -> Result<(), String> {
        if self.k == 0 {
            return Err("k is 0: the sum has no terms, so scale c instead".to_owned());
        }
        for (name, (cols, _, ld)) in [("a", self.stored_a()), ("b", self.stored_b()), ("c", self.stored_c())] {
            if ld < cols {
                return Err(format!("the row stride of {name} is {ld}, and its rows have {cols} elements"));
            }
        }
        if self.batch > 1 && self.stride_c == 0 {
            return Err(format!("the batch stride of c is 0, and there are {} products", self.batch));
        }
        Ok(())
    }

    /// The key of a plan for matrices at these addresses.
    pub(super) fn plan_key(&self, addresses: [u64; 3]) -> PlanKey {
        PlanKey {
            a: self.stored_a(),
            b: self.stored_b(),
            c: self.stored_c(),
            transposed: (self.transpose_a, self.transpose_b),
            batch: (self.batch, self.stride_a, self.stride_b, self.stride_c),
            types: (self.input, self.output, self.compute, self.epilogue),
            adds: self.beta != 0.0,
            alignment: addresses.map(alignment),
        }
    }

    /// Rows, columns and leading dimension of a stored matrix as cuBLASLt sees it. cuBLASLt is column-major, where a
    /// row-major matrix appears as its transpose: it computes the transpose of `c` from `b` and `a`, in this order.
    fn stored(rows: usize, cols: usize, ld: usize) -> (usize, usize, usize) {
        (cols, rows, if ld == 0 { cols } else { ld })
    }

    fn stored_a(&self) -> (usize, usize, usize) {
        let (rows, cols) = if self.transpose_a { (self.k, self.m) } else { (self.m, self.k) };
        Self::stored(rows, cols, self.lda)
    }

    fn stored_b(&self) -> (usize, usize, usize) {
        let (rows, cols) = if self.transpose_b { (self.n, self.k) } else { (self.k, self.n) };
        Self::stored(rows, cols, self.ldb)
    }

    fn stored_c(&self) -> (usize, usize, usize) {
        Self::stored(self.m, self.n, self.ldc)
    }
}

/// The types of a product as cuBLASLt names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProductTypes {
    pub(super) compute: cublasComputeType_t,
    /// Type of alpha and beta.
    pub(super) scale: Element,
    /// A scalar of type `scale` in the first bytes; the machine is little-endian.
    pub(super) alpha: u64,
    pub(super) beta: u64,
}

/// The bits of a scalar; `None` if the type is i32 and the value is not an i32.
fn scalar(scale: Element, value: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, reason = "rounded to f32; integers are in range")]
    match scale {
        Element::F64 => Some(value.to_bits()),
        Element::I8 | Element::I32 => {
            let is_i32 = value.fract() == 0.0 && value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX);
            is_i32.then_some(u64::from((value as i32).cast_unsigned()))
        }
        Element::F32 | Element::F16 | Element::Bf16 => Some(u64::from((value as f32).to_bits())),
    }
}

/// Everything that a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlanKey {
    pub(super) a: (usize, usize, usize),
    pub(super) b: (usize, usize, usize),
    pub(super) c: (usize, usize, usize),
    transposed: (bool, bool),
    batch: (usize, usize, usize, usize),
    types: (Element, Element, Compute, Epilogue),
    adds: bool,
    /// Largest power of two, up to 256, that divides the addresses of a, b and c.
    pub(super) alignment: [u32; 3],
}

fn alignment(address: u64) -> u32 {
    1 << address.trailing_zeros().min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_major_matrices_are_described_as_column_major_transposes() {
        let product = Product { transpose_b: true, ldc: 10, ..Product::new(3, 5, 7) };
        assert_eq!(product.stored_a(), (7, 3, 7));
        assert_eq!(product.stored_b(), (7, 5, 7));
        assert_eq!(product.stored_c(), (5, 3, 10));
        assert_eq!(Product::new(3, 5, 7).stored_b(), (5, 7, 5));
    }

    #[test]
    fn alignments_are_powers_of_two_up_to_256() {
        assert_eq!([0, 1, 2, 12, 256, 1 << 20].map(alignment), [256, 1, 2, 4, 256, 256]);
    }

    #[test]
    fn each_pair_of_types_accumulates_and_scales_in_its_own() {
        use Element::{Bf16, F16, F32, F64, I8, I32};
        use cublasComputeType_t as Type;
        let one = u64::from(1_f32.to_bits());
        for (input, output, compute, scale, alpha) in [
            (F64, F64, Type::CUBLAS_COMPUTE_64F, F64, 1_f64.to_bits()),
            (F32, F32, Type::CUBLAS_COMPUTE_32F, F32, one),
            (F16, F16, Type::CUBLAS_COMPUTE_32F, F32, one),
            (F16, F32, Type::CUBLAS_COMPUTE_32F, F32, one),
            (Bf16, Bf16, Type::CUBLAS_COMPUTE_32F, F32, one),
            (Bf16, F32, Type::CUBLAS_COMPUTE_32F, F32, one),
            (I8, I32, Type::CUBLAS_COMPUTE_32I, I32, 1),
        ] {
            let expected = ProductTypes { compute, scale, alpha, beta: 0 };
            assert_eq!(Product::of(input, output, 1, 1, 1).types(), Ok(expected), "{input:?} to {output:?}");
        }
        let tf32 = Product { compute: Compute::Tf32, ..Product::new(1, 1, 1) };
        assert_eq!(tf32.types().map(|types| types.compute), Ok(Type::CUBLAS_COMPUTE_32F_FAST_TF32));
    }

    #[test]
    fn tf32_changes_products_of_f32_alone() {
        for input in [Element::F64, Element::F16, Element::Bf16] {
            let product = Product::of(input, input, 1, 1, 1);
            assert_eq!(Product { compute: Compute::Tf32, ..product }.types(), product.types());
        }
    }

    #[test]
    fn unknown_combinations_are_errors() {
        use Element::{F16, F32, F64, I8, I32};
        for (input, output) in [(F32, F16), (F64, F32), (I8, F32), (I8, I8), (I32, I32)] {
            let error = Product::of(input, output, 1, 1, 1).types().expect_err("no such product");
            assert!(error.contains(&format!("{input:?}")) && error.contains(&format!("{output:?}")), "{error}");
        }
        let biased = Product { epilogue: Epilogue::Bias, ..Product::of(F64, F64, 1, 1, 1) };
        assert!(biased.types().expect_err("no such epilogue").contains("Bias"));
    }

    #[test]
    fn scalars_of_integer_products_are_integers() {
        let product = |alpha| Product { alpha, ..Product::of(Element::I8, Element::I32, 1, 1, 1) }.types();
        assert_eq!(product(-2.0).map(|types| types.alpha), Ok(u64::from((-2_i32).cast_unsigned())));
        for wrong in [0.5, 3e9, f64::NAN, f64::INFINITY] {
            assert!(product(wrong).expect_err("no integer").contains("alpha"), "{wrong}");
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        let product = Product::new(3, 5, 7);
        assert_eq!(product.check_shapes(), Ok(()));
        let batched = Product { batch: 2, stride_a: 0, stride_b: 35, stride_c: 15, ..product };
        assert_eq!(batched.check_shapes(), Ok(()), "all products may share a");
        for (wrong, named) in [
            (Product { k: 0, ..product }, "k is 0"),
            (Product { lda: 6, ..product }, "of a is 6"),
            (Product { transpose_b: true, ldb: 5, ..product }, "of b is 5"),
            (Product { ldc: 4, ..product }, "of c is 4"),
            (Product { stride_c: 0, ..batched }, "batch stride of c"),
        ] {
            let error = wrong.check_shapes().expect_err("it does not fit");
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn plans_are_shared_by_what_does_not_change_the_algorithm() {
        let product = Product::new(64, 64, 64);
        let key = |product: Product, addresses| product.plan_key(addresses);
        let first = key(product, [256, 512, 1024]);
        assert_eq!(first, key(Product { alpha: 2.0, ..product }, [512, 256, 256]));
        assert_eq!(key(Product { beta: 1.0, ..product }, [256; 3]), key(Product { beta: 2.0, ..product }, [256; 3]));
        for other in [
            key(product, [256, 512, 4]),
            key(Product { beta: 1.0, ..product }, [256; 3]),
            key(Product { transpose_a: true, ..product }, [256; 3]),
            key(Product { compute: Compute::Tf32, ..product }, [256; 3]),
            key(Product { epilogue: Epilogue::Bias, ..product }, [256; 3]),
            key(Product { batch: 2, stride_c: 4096, ..product }, [256; 3]),
            key(Product { lda: 128, ..product }, [256; 3]),
            key(Product { input: Element::F16, ..product }, [256; 3]),
        ] {
            assert_ne!(first, other);
        }
    }
}
