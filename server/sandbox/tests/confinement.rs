//! Attempts of child processes to read, write, open, signal and connect, as root and as another user. SECURITY.md says which succeed.

mod common;

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    io::Read,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{PermissionsExt, chown},
            net::{SocketAddr, UnixListener},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use accelerd_sandbox::{Role, Sandbox, Settings, child::missing_confinement};
use common::*;

const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// A user without rights, whose number has no account on most systems.
const USER: u32 = 54_321;

/// Targets of a confined process: everything in a folder, sockets, and another process of its user.
struct Targets {
    user: Option<u32>,
    folder: PathBuf,
    program: PathBuf,
    tcp: TcpListener,
    victim: Child,
    _sockets: [UnixListener; 2],
}

impl Targets {
    /// Those of a user, or of the one that runs this test. `name` is that of its folder.
    fn new(name: &str, user: Option<u32>) -> Self {
        let folder = std::env::temp_dir().join(format!("accelerd-confinement-{name}-{}", std::process::id()));
        fs::create_dir(&folder).expect("a new folder");
        // The user may not be able to read the folder of the build.
        let program = folder.join("sandbox-child");
        // Another process copies it: a process that a test beside this one starts would inherit the open file, and no program starts
        // while its file is open for writing.
        let copied = Command::new("cp").args([Path::new(env!("CARGO_BIN_EXE_sandbox-child")), &program]).status();
        assert!(copied.expect("cp starts").success());
        for file in ["file", "to rename", "to remove", "file to change"] {
            fs::write(folder.join(file), "a secret").expect("a new file");
        }
        fs::create_dir(folder.join("folder to remove")).expect("a new folder");
        let abstract_name =
            SocketAddr::from_abstract_name(folder.as_os_str().as_encoded_bytes()).expect("a short name");
        let sockets = [UnixListener::bind(folder.join("socket")), UnixListener::bind_addr(&abstract_name)];
        let sockets = sockets.map(|socket| socket.expect("a new socket"));
        let entries: Vec<_> =
            fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
        for path in entries.iter().chain([&folder]) {
            fs::set_permissions(path, Permissions::from_mode(0o777)).expect("own files");
            if user.is_some() {
                chown(path, user, user).expect("root may change owners");
            }
        }
        // It waits for a request.
        let victim = command(&program, user).stdin(Stdio::piped()).spawn().expect("the program starts");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self { user, folder, program, tcp, victim, _sockets: sockets }
    }

    /// The error number of each attempt of a process.
    fn probe(&self, access: &str) -> BTreeMap<String, i32> {
        let port = self.tcp.local_addr().expect("an address").port().to_string();
        let mut probe = command(&self.program, self.user);
        probe.args(["probe", access]).arg(&self.folder).args([port, self.victim.id().to_string()]);
        let output = probe.stderr(Stdio::piped()).output().expect("the program starts");
        assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        let attempts = text.lines().filter_map(|line| line.split_once('='));
        attempts.map(|(name, errno)| (name.to_owned(), errno.parse().expect("a number"))).collect()
    }

    fn victim_lives(&mut self) -> bool {
        matches!(self.victim.try_wait(), Ok(None))
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn command(program: &Path, user: Option<u32>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir("/").process_group(0);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command
}

/// This user, and another one if this one is root.
fn users() -> Vec<(&'static str, Option<u32>)> {
    let other = rustix::process::geteuid().is_root().then_some(("other", Some(USER)));
    [("own", None)].into_iter().chain(other).collect()
}

fn has_landlock() -> bool {
    !missing_confinement().contains(&"Landlock")
}

/// The tests of filters need a kernel that has them.
fn assert_filters() {
    assert!(!missing_confinement().contains(&"seccomp filters"), "the kernel has no seccomp filters");
}

#[test]
fn without_confinement_the_targets_are_reached() {
    for (name, user) in users() {
        let mut targets = Targets::new(&format!("open-{name}"), user);
        let is_root = user.is_none() && rustix::process::geteuid().is_root();
        let mut failed = targets.probe("none");
        failed.retain(|_, errno| *errno != 0);
        let names: Vec<_> = failed.keys().map(String::as_str).collect();
        let expected: &[&str] = match (is_root, user) {
            (true, _) => &["gain_capability"],
            // The parent belongs to root.
            (false, Some(_)) => &["change_root", "find_parent", "gain_capability"],
            (false, None) => &["change_root", "gain_capability"],
        };
        assert_eq!(names, expected, "{name}: {failed:?}");
        assert!(targets.victim.wait().is_ok_and(|status| !status.success()), "{name}: the process is ended");
    }
}

#[test]
fn a_child_that_computes_reaches_nothing() {
    assert_filters();
    for (name, user) in users() {
        let mut targets = Targets::new(&format!("computing-{name}"), user);
        let attempts = targets.probe("computing");
        assert!(attempts.len() > 30, "{name}: {attempts:?}");
        for (attempt, errno) in attempts {
            assert_eq!(errno, EPERM, "{name}: {attempt}");
        }
        assert!(targets.victim_lives(), "{name}");
    }
}

#[test]
fn a_child_that_uses_a_gpu_reaches_libraries_and_devices_only() {
    assert_filters();
    // Without Landlock, filters cannot tell paths apart.
    let opened = if has_landlock() { EACCES } else { 0 };
    let allowed = ["open_device", "read_library_folder", "read_own_maps", "stat_file", "read_link"];
    let by_path = ["read_file", "read_passwd", "list_folder", "write_file"];
    for (name, user) in users() {
        let mut targets = Targets::new(&format!("device-{name}"), user);
        for (attempt, errno) in targets.probe("device") {
            let expected = match attempt.as_str() {
                attempt if allowed.contains(&attempt) => 0,
                attempt if by_path.contains(&attempt) => opened,
                // A process without capabilities cannot look into one that has some.
                "read_environment_of_process" if user.is_none() && rustix::process::geteuid().is_root() => EACCES,
                "read_environment_of_process" => opened,
                _ => EPERM,
            };
            assert_eq!(errno, expected, "{name}: {attempt}");
        }
        assert!(targets.victim_lives(), "{name}");
    }
}

#[test]
fn children_of_every_role_have_filters_and_no_capabilities() {
    assert_filters();
    let compiler = |client_sources| Role::CudaCompiler { library_paths: vec![], client_sources, quick: false };
    let device = Role::CudaDevice { ordinal: 0, duty_cycle: 1.0 };
    for role in [Role::Wasm, compiler(false), compiler(true), device, Role::CudaSubject { ordinal: 0 }] {
        let settings = Settings { role: role.clone(), ..Settings::default() };
        let sandbox = Sandbox::start(program(), settings).expect("the child starts");
        let pid = sandbox.pid().expect("it runs");
        for thread in fs::read_dir(format!("/proc/{pid}/task")).expect("its threads") {
            let status = status(&thread.expect("a thread").path().join("status"));
            let field = |name: &str| status.get(name).map_or("", String::as_str);
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(field(set), "0000000000000000", "{role:?}: {set}");
            }
            if rustix::process::geteuid().is_root() {
                assert_eq!(field("CapBnd"), "0000000000000000", "{role:?}");
            }
            assert_eq!([field("NoNewPrivs"), field("Seccomp")], ["1", "2"], "{role:?}");
        }
    }
}

/// The fields of a file of `/proc`.
fn status(path: &Path) -> BTreeMap<String, String> {
    let mut text = String::new();
    fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)).expect("its state");
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

#[test]
fn asking_what_the_kernel_lacks_confines_nobody() {
    let first = missing_confinement();
    assert_eq!(missing_confinement(), first);
    let status = status(Path::new("/proc/thread-self/status"));
    assert_eq!(status.get("Seccomp").map(String::as_str), Some("0"));
    assert!(fs::read_to_string("/etc/passwd").is_ok());
}
