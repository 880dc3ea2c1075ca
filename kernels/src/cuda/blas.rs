//! GEMM by cuBLASLt with explicit precision, epilogues and a plan cache per worker.

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{c_int, c_void},
    rc::Rc,
};

use cudarc::{
    cublaslt::sys::{self, cublasStatus_t},
    driver::sys::CUstream,
};

use super::{
    device::Device,
    memory::{Buffer, DevicePtr},
    stream::Stream,
};
use crate::OpError;

/// Maximum size of the plan cache, which is cleared when full. No model has nearly as many shapes.
const MAX_PLANS: usize = 512;
/// Split-K partial sums are added in a fixed order and in f32, so that a device's results are bitwise reproducible.
const REDUCTION: u32 = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
const NAME: &str = "cublasLtMatmul";

/// Type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
}

/// How f32 inputs are multiplied. Accumulation is always in f32.
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
    /// Whether `a` is stored as `[k, m]`.
    pub transpose_a: bool,
    /// Whether `b` is stored as `[n, k]`, as are the weights of a linear layer or the rows of a corpus.
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
    /// Scales the product.
    pub alpha: f32,
    /// Scales the previous content of `c`, which is not read if 0.
    pub beta: f32,
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

/// Everything that a plan depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    a: (usize, usize, usize),
    b: (usize, usize, usize),
    c: (usize, usize, usize),
    transposed: (bool, bool),
    batch: (usize, usize, usize, usize),
    types: (Element, Element, Compute, Epilogue),
    adds: bool,
    /// Largest power of two, up to 256, that divides the addresses of a, b and c.
    alignment: [u32; 3],
}

/// A worker's cuBLASLt handle, workspace and plan cache.
pub(super) struct Blas {
    handle: sys::cublasLtHandle_t,
    workspace: Buffer<u8>,
    plans: RefCell<HashMap<Key, Rc<Plan>>>,
}

impl Blas {
    /// Workspace size in bytes that NVIDIA recommends for the device's architecture.
    pub(super) fn workspace_bytes(device: &Device) -> usize {
        if device.arch().capability().0 >= 9 { 32 << 20 } else { 4 << 20 }
    }

    /// Loads the library and creates a handle; the device's context is current.
    pub(super) fn open(device: &Device, workspace: Buffer<u8>) -> Result<Self, OpError> {
        // SAFETY: only opens a library by name.
        if !unsafe { sys::is_culib_present() } {
            return Err(device.failed("libcublasLt", "the library was not found"));
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check(device, unsafe { sys::cublasLtCreate(&raw mut handle) })?;
        Ok(Self { handle, workspace, plans: RefCell::default() })
    }

    /// Enqueues a product on `stream`, which must own the workspace. `bias` is read only by an epilogue that adds one.
    pub(super) fn multiply<A, B, C, D>(
        &self,
        stream: &Stream,
        product: &Product,
        (a, b, c): (DevicePtr<A>, DevicePtr<B>, DevicePtr<C>),
        bias: DevicePtr<D>,
    ) -> Result<(), OpError> {
        let device = stream.device();
        let key = Key {
            a: product.stored_a(),
            b: product.stored_b(),
            c: product.stored_c(),
            transposed: (product.transpose_a, product.transpose_b),
            batch: (product.batch, product.stride_a, product.stride_b, product.stride_c),
            types: (product.input, product.output, product.compute, product.epilogue),
            adds: product.beta != 0.0,
            alignment: [a.raw, b.raw, c.raw].map(alignment),
        };
        let plan = self.plan(device, product, key)?;
        if product.epilogue != Epilogue::None {
            plan.desc.set(device, sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.raw)?;
        }
        plan.run(self, device, product, [a.raw, b.raw, c.raw], stream.raw())
    }

    fn plan(&self, device: &Device, product: &Product, key: Key) -> Result<Rc<Plan>, OpError> {
        if let Some(plan) = self.plans.borrow().get(&key) {
            return Ok(Rc::clone(plan));
        }
        let plan = Rc::new(Plan::new(self, device, product, &key)?);
        let mut plans = self.plans.borrow_mut();
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(key, Rc::clone(&plan));
        Ok(plan)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.plans.get_mut().clear();
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cublasLtDestroy(self.handle) };
    }
}

fn alignment(address: u64) -> u32 {
    1 << address.trailing_zeros().min(8)
}

/// Descriptors and the chosen algorithm of a product.
struct Plan {
    desc: Desc,
    a: MatrixLayout,
    b: MatrixLayout,
    c: MatrixLayout,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Plan {
    fn new(blas: &Blas, device: &Device, product: &Product, key: &Key) -> Result<Self, OpError> {
        let desc = Desc::new(device, product)?;
        let layout = |shape, of, stride| MatrixLayout::new(device, shape, of, product.batch, stride);
        let a = layout(key.a, product.input, product.stride_a)?;
        let b = layout(key.b, product.input, product.stride_b)?;
        let c = layout(key.c, product.output, product.stride_c)?;
        let preference = Preference::new(device, blas.workspace.size_bytes(), key.alignment)?;
        // SAFETY: a C struct of numbers, for which all bits zero are valid.
        let mut found: sys::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        let mut count = 0;
        // SAFETY: all descriptors are alive; at most one result is written.
        let status = unsafe {
            let (desc, prefer) = (desc.0, preference.0);
            let (found, count) = (&raw mut found, &raw mut count);
            sys::cublasLtMatmulAlgoGetHeuristic(blas.handle, desc, b.0, a.0, c.0, c.0, prefer, 1, found, count)
        };
        check(device, status)?;
        if count == 0 {
            return Err(device.failed(NAME, &format!("no algorithm for {product:?}")));
        }
        check(device, found.state)?;
        Ok(Self { desc, a, b, c, algorithm: found.algo })
    }

    fn run(
        &self,
        blas: &Blas,
        device: &Device,
        product: &Product,
        [a, b, c]: [u64; 3],
        stream: CUstream,
    ) -> Result<(), OpError> {
        let (alpha, beta) = (&raw const product.alpha, &raw const product.beta);
        // SAFETY: descriptors, workspace and stream are alive and used by this worker alone; the caller guarantees the
        // matrices.
        let status = unsafe {
            sys::cublasLtMatmul(
                blas.handle,
                self.desc.0,
                alpha.cast(),
                b as *const c_void,
                self.b.0,
                a as *const c_void,
                self.a.0,
                beta.cast(),
                c as *const c_void,
                self.c.0,
                c as *mut c_void,
                self.c.0,
                &raw const self.algorithm,
                blas.workspace.ptr().raw as *mut c_void,
                blas.workspace.size_bytes(),
                stream.cast(),
            )
        };
        check(device, status)
    }
}

/// Matmul descriptor: precision, transposition and epilogue.
struct Desc(sys::cublasLtMatmulDesc_t);

impl Desc {
    fn new(device: &Device, product: &Product) -> Result<Self, OpError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let compute = match product.compute {
            Compute::Tf32 if product.input == Element::F32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            Compute::F32 | Compute::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let epilogue = match product.epilogue {
            Epilogue::None => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
            Epilogue::Bias => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            Epilogue::GeluBias => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_BIAS,
        };
        let mut handle = std::ptr::null_mut();
        let scale = sys::cudaDataType_t::CUDA_R_32F;
        // SAFETY: writes one handle.
        check(device, unsafe { sys::cublasLtMatmulDescCreate(&raw mut handle, compute, scale) })?;
        let desc = Self(handle);
        desc.set(device, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &i32::from(product.transpose_b))?;
        desc.set(device, Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &i32::from(product.transpose_a))?;
        desc.set(device, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(epilogue as u32))?;
        Ok(desc)
    }

    fn set<T>(
        &self,
        device: &Device,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: &T,
    ) -> Result<(), OpError> {
        let from = std::ptr::from_ref(value).cast();
        // SAFETY: the descriptor is alive; the value is read during the call and has the attribute's size.
        check(device, unsafe { sys::cublasLtMatmulDescSetAttribute(self.0, attribute, from, size_of::<T>()) })
    }
}

impl Drop for Desc {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cublasLtMatmulDescDestroy(self.0) };
    }
}

/// Column-major layout of a matrix.
struct MatrixLayout(sys::cublasLtMatrixLayout_t);

impl MatrixLayout {
    fn new(
        device: &Device,
        (rows, cols, ld): (usize, usize, usize),
        of: Element,
        batch: usize,
        stride: usize,
    ) -> Result<Self, OpError> {
        use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
        let of = match of {
            Element::F32 => sys::cudaDataType_t::CUDA_R_32F,
            Element::F16 => sys::cudaDataType_t::CUDA_R_16F,
            Element::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
        };
        let too_large = |_| device.failed(NAME, "a matrix is too large");
        let ld = i64::try_from(ld).map_err(too_large)?;
        let mut handle = std::ptr::null_mut();
        let (rows, cols) = (rows as u64, cols as u64);
        // SAFETY: writes one handle.
        check(device, unsafe { sys::cublasLtMatrixLayoutCreate(&raw mut handle, of, rows, cols, ld) })?;
        let layout = Self(handle);
        if batch > 1 {
            let batch = c_int::try_from(batch).map_err(too_large)?;
            let stride = i64::try_from(stride).map_err(too_large)?;
            layout.set(device, Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch)?;
            layout.set(device, Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride)?;
        }
        Ok(layout)
    }

    fn set<T>(
        &self,
        device: &Device,
        attribute: sys::cublasLtMatrixLayoutAttribute_t,
        value: &T,
    ) -> Result<(), OpError> {
        let from = std::ptr::from_ref(value).cast();
        // SAFETY: the layout is alive; the value is read during the call and has the attribute's size.
        check(device, unsafe { sys::cublasLtMatrixLayoutSetAttribute(self.0, attribute, from, size_of::<T>()) })
    }
}

impl Drop for MatrixLayout {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cublasLtMatrixLayoutDestroy(self.0) };
    }
}

/// Constraints on the algorithm: workspace, reduction scheme and alignments.
struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn new(device: &Device, workspace: usize, [a, b, c]: [u32; 3]) -> Result<Self, OpError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check(device, unsafe { sys::cublasLtMatmulPreferenceCreate(&raw mut handle) })?;
        let preference = Self(handle);
        preference.set(device, Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace)?;
        preference.set(device, Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &REDUCTION)?;
        // cuBLASLt's first operand is `b`.
        preference.set(device, Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b)?;
        preference.set(device, Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a)?;
        preference.set(device, Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c)?;
        preference.set(device, Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c)?;
        Ok(preference)
    }

    fn set<T>(
        &self,
        device: &Device,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: &T,
    ) -> Result<(), OpError> {
        let from = std::ptr::from_ref(value).cast();
        // SAFETY: the preference is alive; the value is read during the call and has the attribute's size.
        check(device, unsafe { sys::cublasLtMatmulPreferenceSetAttribute(self.0, attribute, from, size_of::<T>()) })
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cublasLtMatmulPreferenceDestroy(self.0) };
    }
}

fn check(device: &Device, status: cublasStatus_t) -> Result<(), OpError> {
    if status == cublasStatus_t::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    // cuBLASLt reports a sticky error only as a failed execution; the next synchronisation marks the device as lost.
    Err(device.failed(NAME, &format!("{status:?}")))
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
}
