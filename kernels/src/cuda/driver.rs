//! The CUDA driver: loading, error descriptions and classification.

use std::ffi::{CStr, c_char, c_void};

use cudarc::driver::sys::{self, CUresult};

use crate::LossScope;

/// Driver functions that this crate calls. `cudarc` panics on a missing one, so `start` checks them first.
const REQUIRED: [&str; 59] = [
    "cuCtxGetStreamPriorityRange",
    "cuCtxSetCurrent",
    "cuCtxSetLimit",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernelEx",
    "cuMemAllocFromPoolAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveClusters",
    "cuOccupancyMaxPotentialBlockSize",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuTensorMapEncodeIm2col",
    "cuTensorMapEncodeTiled",
];

/// Loads and initialises the driver, or returns why it is unusable.
pub(super) fn start() -> Result<(), String> {
    // SAFETY: only opens a library by name; loading libcuda runs NVIDIA's initialisers, which is intended.
    if !unsafe { sys::is_culib_present() } {
        return Err("the CUDA driver library (libcuda.so.1) was not found".to_owned());
    }
    if let Some(missing) = REQUIRED.iter().find(|name| symbol(name).is_none()) {
        return Err(format!("the CUDA driver is too old: it has no {missing}"));
    }
    // SAFETY: cuInit may be called at any time, from any thread, any number of times.
    let started = ok(unsafe { sys::cuInit(0) });
    started.map_err(|failed| format!("the CUDA driver failed to initialise: {}", describe(failed)))
}

/// Converts a driver result.
pub(super) fn ok(result: CUresult) -> Result<(), CUresult> {
    if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(result) }
}

/// Highest CUDA version the driver supports, as 13000 for 13.0.
pub(super) fn version() -> i32 {
    let mut version = 0;
    // SAFETY: writes one int; needs no context.
    let _ = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    version
}

/// Address of a driver function, if the driver has it.
fn symbol(name: &str) -> Option<*const c_void> {
    // SAFETY: the symbol is only looked up, not called; the library is never unloaded.
    unsafe { sys::culib().get::<*const c_void>(name.as_bytes()).ok().map(|symbol| *symbol) }
}

/// Milliseconds between two completed events. It calls the first version of the function, which every driver has;
/// `cudarc` would call the second, which only drivers since 12.8 have.
pub(super) fn elapsed_ms(start: sys::CUevent, stop: sys::CUevent) -> Option<f32> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> CUresult;
    let found = symbol("cuEventElapsedTime")?;
    // SAFETY: the driver's function of this name has this signature.
    let elapsed = unsafe { std::mem::transmute::<*const c_void, Elapsed>(found) };
    let mut ms = 0.0;
    // SAFETY: both events are alive and were recorded; an event that is not complete returns an error.
    let result = unsafe { elapsed(&raw mut ms, start, stop) };
    (result == CUresult::CUDA_SUCCESS).then_some(ms)
}

/// Sizes of a kernel's parameters in bytes; `None` if the driver is too old to say (before 12.4).
pub(super) fn function_params(function: sys::CUfunction) -> Option<Vec<usize>> {
    symbol("cuFuncGetParamInfo")?;
    let mut sizes = vec![];
    loop {
        let mut offset = 0;
        let mut size = 0;
        // SAFETY: the function is alive; writes two integers. An index out of range returns an error.
        let result = unsafe { sys::cuFuncGetParamInfo(function, sizes.len(), &raw mut offset, &raw mut size) };
        if result != CUresult::CUDA_SUCCESS {
            return (result == CUresult::CUDA_ERROR_INVALID_VALUE).then_some(sizes);
        }
        sizes.push(size);
    }
}

/// Creates an event in the current context.
pub(super) fn event(flags: sys::CUevent_flags) -> Result<sys::CUevent, CUresult> {
    let mut event = std::ptr::null_mut();
    // SAFETY: writes one handle.
    ok(unsafe { sys::cuEventCreate(&raw mut event, flags as u32) })?;
    Ok(event)
}

/// The driver's name and description of an error.
pub(super) fn describe(error: CUresult) -> String {
    let text = |get: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut found = std::ptr::null();
        // SAFETY: writes one pointer to a static string, or null for an unknown error.
        let result = unsafe { get(error, &raw mut found) };
        let known = result == CUresult::CUDA_SUCCESS && !found.is_null();
        // SAFETY: the driver's strings are static and NUL-terminated.
        known.then(|| unsafe { CStr::from_ptr(found) }.to_string_lossy().into_owned())
    };
    match (text(sys::cuGetErrorName), text(sys::cuGetErrorString)) {
        (Some(name), Some(words)) => format!("{name} ({words})"),
        (Some(name), None) => name,
        (None, _) => format!("unknown error {}", error as u32),
    }
}

/// The scope that an error takes out of service, by the descriptions of `CUresult` in the driver API; `None` if the device is still
/// usable.
pub(super) fn loss_scope(error: CUresult) -> Option<LossScope> {
    // "This leaves the process in an inconsistent state and any further CUDA work will return the same error. To continue
    // using CUDA, the process must be terminated and relaunched", or the like. Of ASSERT, ECC_UNCORRECTABLE and
    // NVLINK_UNCORRECTABLE the driver API says only that the context or the execution ended; they are raised as a trap is,
    // after which the calls on all other devices fail as well.
    const PROCESS: [CUresult; 18] = [
        CUresult::CUDA_ERROR_NOT_INITIALIZED,
        CUresult::CUDA_ERROR_DEINITIALIZED,
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
        CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
        CUresult::CUDA_ERROR_CONTAINED,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        CUresult::CUDA_ERROR_ASSERT,
        CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUresult::CUDA_ERROR_INVALID_PC,
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
        CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK,
        CUresult::CUDA_ERROR_MPS_RPC_FAILURE,
        CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED,
        CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
    ];
    // The device or its context is gone. UNKNOWN is what a device returns that has fallen off the bus; if it affects the
    // process, the other devices return it at their next call.
    const DEVICE: [CUresult; 9] = [
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
        CUresult::CUDA_ERROR_NO_DEVICE,
        CUresult::CUDA_ERROR_INVALID_DEVICE,
        CUresult::CUDA_ERROR_INVALID_CONTEXT,
        CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUresult::CUDA_ERROR_SYSTEM_NOT_READY,
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
        CUresult::CUDA_ERROR_MPS_SERVER_NOT_READY,
        CUresult::CUDA_ERROR_UNKNOWN,
    ];
    if PROCESS.contains(&error) {
        return Some(LossScope::Cuda);
    }
    DEVICE.contains(&error).then_some(LossScope::Device)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        path::{Path, PathBuf},
    };

    use super::*;

    /// The files of a folder and of those in it.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    /// The driver's functions that the sources of this folder call.
    fn called() -> BTreeSet<String> {
        let sources = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda"));
        let texts = sources.iter().map(|file| fs::read_to_string(file).expect("a source"));
        let calls = |text: String| {
            let words =
                text.split("sys::").skip(1).filter_map(|rest| rest.split_once('(').map(|(name, _)| name.to_owned()));
            let is_driver =
                |name: &String| name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(char::is_uppercase));
            words
                .filter(is_driver)
                .filter(|name| name.chars().all(|character| character.is_alphanumeric() || character == '_'))
                .collect::<Vec<_>>()
        };
        texts.flat_map(calls).collect()
    }

    #[test]
    fn every_function_that_is_called_is_required() {
        // Looked up before it is called, and under its first version.
        let known = REQUIRED.iter().copied().chain(["cuFuncGetParamInfo"]).collect::<BTreeSet<_>>();
        let called = called();
        assert!(called.len() > 40, "{called:?}");
        let missing: Vec<_> = called.iter().filter(|name| !known.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let unused: Vec<_> = REQUIRED.iter().filter(|name| !called.contains(**name)).collect();
        assert_eq!(unused, [&"cuEventElapsedTime", &"cuGetErrorName", &"cuGetErrorString"], "called by pointers");
    }

    #[test]
    fn errors_of_kernels_end_cuda_in_the_process() {
        for sticky in [
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
            CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
            CUresult::CUDA_ERROR_LAUNCH_FAILED,
            CUresult::CUDA_ERROR_ASSERT,
            CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
            CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
            CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
        ] {
            assert_eq!(loss_scope(sticky), Some(LossScope::Cuda), "{sticky:?}");
        }
    }

    #[test]
    fn a_device_that_is_gone_is_lost_alone() {
        for gone in [
            CUresult::CUDA_ERROR_NO_DEVICE,
            CUresult::CUDA_ERROR_INVALID_DEVICE,
            CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
            CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            CUresult::CUDA_ERROR_UNKNOWN,
        ] {
            assert_eq!(loss_scope(gone), Some(LossScope::Device), "{gone:?}");
        }
    }

    #[test]
    fn other_errors_leave_the_device_usable() {
        for recoverable in [
            CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            CUresult::CUDA_ERROR_INVALID_VALUE,
            CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            CUresult::CUDA_ERROR_NOT_FOUND,
            CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        ] {
            assert_eq!(loss_scope(recoverable), None, "{recoverable:?}");
        }
    }
}
