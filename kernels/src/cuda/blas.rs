//! GEMM by cuBLASLt: a handle, a workspace and a plan cache for each worker. Once a product's plan exists, its launch
//! neither allocates nor initialises anything, so it can be captured in a graph.

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{c_int, c_void},
    rc::Rc,
    sync::Arc,
};

use cudarc::{
    cublaslt::sys::{self, cublasStatus_t},
    driver::sys::CUstream,
};

use super::{
    device::Device,
    memory::Buffer,
    product::{Element, Epilogue, PlanKey, Product, ProductTypes},
    stats::LaunchCounter,
    stream::Stream,
};
use crate::OpError;

/// Maximum size of the plan cache, which is cleared when full. No model has nearly as many shapes.
const MAX_PLANS: usize = 512;
/// Split-K partial sums are added in a fixed order and in f32, so that a device's results are bitwise reproducible.
const REDUCTION: u32 = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
/// Name in statistics and errors.
const NAME: &str = "cublaslt_matmul";

/// A worker's cuBLASLt handle, workspace and plan cache.
pub(super) struct Blas {
    handle: sys::cublasLtHandle_t,
    workspace: Buffer<u8>,
    plans: RefCell<HashMap<PlanKey, Rc<Plan>>>,
    counter: Arc<LaunchCounter>,
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
        Ok(Self { handle, workspace, plans: RefCell::default(), counter: device.counter(NAME) })
    }

    /// Enqueues a product on `stream`, which must own the workspace. `bias` is read only by an epilogue that adds one.
    pub(super) fn multiply(
        &self,
        stream: &Stream,
        product: &Product,
        matrices: [u64; 3],
        bias: u64,
        moved_bytes: u64,
    ) -> Result<(), OpError> {
        let device = stream.device();
        let types = Self::types(device, product)?;
        let key = product.plan_key(matrices);
        let is_capturing = stream.recording().is_some();
        let plan = match self.plan(&key) {
            None if is_capturing => return Err(not_prepared(device)),
            None => self.create_plan(device, product, &types, key)?,
            Some(plan) => plan,
        };
        if product.epilogue != Epilogue::None {
            plan.desc.set(device, sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        }
        let launched = stream.enqueue(&self.counter, moved_bytes, |stream| plan.run(self, &types, matrices, stream));
        launched.map_err(|status| failed(device, status))
    }

    /// Creates the plan that `multiply` needs for a product of matrices with these addresses, or with equal alignments.
    pub(super) fn prepare(&self, device: &Device, product: &Product, matrices: [u64; 3]) -> Result<(), OpError> {
        let types = Self::types(device, product)?;
        let key = product.plan_key(matrices);
        match self.plan(&key) {
            Some(_) => Ok(()),
            None => self.create_plan(device, product, &types, key).map(drop),
        }
    }

    fn types(device: &Device, product: &Product) -> Result<ProductTypes, OpError> {
        let checked = product.check_shapes().and_then(|()| product.types());
        checked.map_err(|reason| device.failed(NAME, &reason))
    }

    fn plan(&self, key: &PlanKey) -> Option<Rc<Plan>> {
        self.plans.borrow().get(key).map(Rc::clone)
    }

    fn create_plan(
        &self,
        device: &Device,
        product: &Product,
        types: &ProductTypes,
        key: PlanKey,
    ) -> Result<Rc<Plan>, OpError> {
        let plan = Rc::new(Plan::new(self, device, product, types, &key)?);
        let mut plans = self.plans.borrow_mut();
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(key, Rc::clone(&plan));
        Ok(plan)
    }
}

/// The error of a product that is captured before it was prepared.
pub(super) fn not_prepared(device: &Device) -> OpError {
    device.failed(NAME, "the product is not prepared: call prepare_multiply before the capture")
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.plans.get_mut().clear();
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cublasLtDestroy(self.handle) };
    }
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
    fn new(
        blas: &Blas,
        device: &Device,
        product: &Product,
        types: &ProductTypes,
        key: &PlanKey,
    ) -> Result<Self, OpError> {
        let desc = Desc::new(device, product, types)?;
        let layout = |shape, of, stride| MatrixLayout::new(device, shape, of, product.batch, stride);
        let a = layout(key.a, product.input, product.stride_a)?;
        let b = layout(key.b, product.input, product.stride_b)?;
        let c = layout(key.c, product.output, product.stride_c)?;
        let preference = Preference::new(device, blas.workspace.size_bytes(), key.alignment)?;
        // SAFETY: a C struct of numbers, for which all bits zero are valid.
        let mut heuristic: sys::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        let mut count = 0;
        // SAFETY: all descriptors are alive; at most one result is written.
        let status = unsafe {
            let desc = desc.0;
            let prefer = preference.0;
            let heuristic = &raw mut heuristic;
            let count = &raw mut count;
            sys::cublasLtMatmulAlgoGetHeuristic(blas.handle, desc, b.0, a.0, c.0, c.0, prefer, 1, heuristic, count)
        };
        if count == 0 {
            return Err(device.failed(NAME, &format!("no algorithm for {product:?}: {status:?}")));
        }
        check(device, status)?;
        check(device, heuristic.state)?;
        Ok(Self { desc, a, b, c, algorithm: heuristic.algo })
    }

    fn run(
        &self,
        blas: &Blas,
        types: &ProductTypes,
        [a, b, c]: [u64; 3],
        stream: CUstream,
    ) -> Result<(), cublasStatus_t> {
        let alpha = &raw const types.alpha;
        let beta = &raw const types.beta;
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
        ok(status)
    }
}

/// Matmul descriptor: precision, transposition and epilogue.
struct Desc(sys::cublasLtMatmulDesc_t);

impl Desc {
    fn new(device: &Device, product: &Product, types: &ProductTypes) -> Result<Self, OpError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let epilogue = match product.epilogue {
            Epilogue::None => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
            Epilogue::Bias => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            Epilogue::GeluBias => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_BIAS,
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check(device, unsafe {
            sys::cublasLtMatmulDescCreate(&raw mut handle, types.compute, types.scale.data_type())
        })?;
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
        let too_large = |_| device.failed(NAME, "a matrix is too large");
        let ld = i64::try_from(ld).map_err(too_large)?;
        let mut handle = std::ptr::null_mut();
        let rows = rows as u64;
        let cols = cols as u64;
        // SAFETY: writes one handle.
        check(device, unsafe { sys::cublasLtMatrixLayoutCreate(&raw mut handle, of.data_type(), rows, cols, ld) })?;
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

fn ok(status: cublasStatus_t) -> Result<(), cublasStatus_t> {
    if status == cublasStatus_t::CUBLAS_STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

fn check(device: &Device, status: cublasStatus_t) -> Result<(), OpError> {
    ok(status).map_err(|status| failed(device, status))
}

/// cuBLASLt reports a sticky error only as a failed execution; the next synchronisation marks the device as lost.
fn failed(device: &Device, status: cublasStatus_t) -> OpError {
    if status == cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED {
        return device.out_of_memory(0);
    }
    device.failed(NAME, &format!("{status:?}"))
}
