//! Settings: typed, layered from defaults, file, environment and flags, and validated in one pass.

mod bounds;
mod budgets;
mod deserialize;
mod load;
mod log_filter;
mod memory;
mod names;
mod redact;
mod reflection;
mod settings;
mod size;
mod variables;
mod written;

pub use budgets::Budgets;
pub(crate) use budgets::guarantee;
pub use load::{ConfigError, ConfigErrors, DEFAULT_FILE, DEFAULTS, load, load_of_process};
pub(crate) use log_filter::log_filter;
pub use memory::{MemoryOrigin, ProcessMemory};
pub use reflection::Reflection;
pub(crate) use settings::to_usize;
pub use settings::{
    Admission, Allow, Anonymous, Auth, Backend, BackendKind, ClientCertificates, Config, Cuda, Drain, Fsync, Http,
    HttpListen, HubSettings, Lane, LaneOverride, Lanes, Limits, LogFormat, Memory, ModelSettings, Precision, Preload,
    Restart, SandboxGpu, SandboxSettings, Server, Store, Telemetry, TensorSettings, Tls,
};
pub use size::ByteSize;
pub use variables::environment;
