//! Child processes for code of clients.

use std::time::Duration;

use accelerd_sandbox::Program;
use serde::{Deserialize, Serialize};

use crate::config::{
    deserialize,
    size::{self, ByteSize},
};

/// Child processes for code of clients.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxSettings {
    /// Number of processes; 0 runs no code of clients.
    #[serde(deserialize_with = "deserialize::count_or_auto")]
    pub processes: usize,
    /// Maximum memory of a process.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub memory: ByteSize,
    /// Maximum memory of an instance.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub case_memory: ByteSize,
    /// Maximum time that a caller can allow a case to take.
    #[serde(with = "humantime_serde")]
    pub case_timeout: Duration,
    /// Maximum time of the compilation of a module.
    #[serde(with = "humantime_serde")]
    pub load_timeout: Duration,
    /// Time that calls without a deadline have.
    #[serde(with = "humantime_serde")]
    pub default_deadline: Duration,
    /// Number added to the nice value of the processes.
    pub nice: u8,
    /// Maximum number of calls that wait for a process.
    pub max_queue: usize,
    /// Maximum share of the processes that one caller has at once.
    pub caller_share: f64,
    /// Maximum number of further processes, whose calls pause while others have their turn.
    pub max_paused: usize,
    /// Time that a call has run before it can be ended for others, if no further call can pause.
    #[serde(with = "humantime_serde")]
    pub guaranteed_time: Duration,
    /// Which GPUs run kernels of clients.
    pub gpu: SandboxGpu,
    /// Maximum memory of a launch on a GPU.
    pub gpu_memory: ByteSize,
    /// The share of time in which launches of several chunks use a GPU.
    pub gpu_duty_cycle: f32,
    /// True if the daemon evaluates the CUDA C++ of clients on GPUs.
    pub cuda_source: bool,
    /// The program of a process; not a setting.
    #[serde(skip, default = "this_program")]
    pub program: Program,
}

/// This program, as a child process for code of clients.
fn this_program() -> Program {
    Program::current(["sandbox"])
}

/// Which GPUs run kernels of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum SandboxGpu {
    /// None.
    Off,
    /// Those of the daemon.
    Auto,
    /// The one with this number, whether or not the daemon uses it.
    Ordinal(u32),
}

impl From<SandboxGpu> for String {
    fn from(gpu: SandboxGpu) -> Self {
        match gpu {
            SandboxGpu::Off => "off".to_owned(),
            SandboxGpu::Auto => "auto".to_owned(),
            SandboxGpu::Ordinal(ordinal) => ordinal.to_string(),
        }
    }
}

impl<'de> Deserialize<'de> for SandboxGpu {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum NumberOrText {
            Number(u32),
            Text(String),
        }
        let text = match NumberOrText::deserialize(from) {
            Ok(NumberOrText::Number(ordinal)) => return Ok(Self::Ordinal(ordinal)),
            Ok(NumberOrText::Text(text)) => text,
            Err(_) => String::new(),
        };
        match text.as_str() {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            number => number
                .parse()
                .map(Self::Ordinal)
                .map_err(|_| serde::de::Error::custom("expected \"auto\", \"off\" or the number of a GPU")),
        }
    }
}
