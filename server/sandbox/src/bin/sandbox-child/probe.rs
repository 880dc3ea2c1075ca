//! A confined process that tries to reach targets, and prints the error number of each attempt; 0 if it succeeds.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{PermissionsExt, chown, chroot, symlink},
            net::{SocketAddr, UnixDatagram, UnixListener, UnixStream},
        },
    },
    path::Path,
    process::{Command, ExitCode},
    thread,
};

use accelerd_sandbox::child::{Access, confine_to, limit_resources};
use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, getppid, kill_process, pidfd_open, prlimit,
        setpriority_process, test_kill_process, test_kill_process_group,
    },
    thread::{CapabilitySet, CapabilitySets, set_capabilities},
};

/// `ACCESS FOLDER PORT VICTIM`: how the process is confined, and what it tries to reach. All of it is there, and open to this user.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let arguments: Vec<_> = arguments.collect();
    let [access, folder, port, victim] = &arguments[..] else { panic!("expected ACCESS FOLDER PORT VICTIM") };
    let port = port.parse().expect("a port");
    let victim = Pid::from_raw(victim.parse().expect("a process id")).expect("a process id");
    let access = match access.as_str() {
        "computing" => Some(Access::Computing),
        "device" => Some(Access::Device),
        _ => None,
    };
    if let Some(access) = access {
        limit_resources(None, 5).expect("the limits are set");
        confine_to(access).expect("the process is confined");
    }
    // The rights of a thread that starts later are the ones that matter.
    let folder = folder.clone();
    let attempts = thread::spawn(move || attempts(Path::new(&folder), port, victim));
    let lines: Vec<_> = attempts
        .join()
        .expect("no attempt panics")
        .into_iter()
        .map(|(name, errno)| format!("{name}={errno}\n"))
        .collect();
    io::stdout().write_all(lines.concat().as_bytes()).expect("standard output is open");
    ExitCode::SUCCESS
}

fn attempts(folder: &Path, port: u16, victim: Pid) -> Vec<(&'static str, i32)> {
    let at = |name: &str| folder.join(name);
    let of_victim = |name: &str| format!("/proc/{}/{name}", victim.as_raw_nonzero());
    let parent = getppid().expect("a parent process");
    let none = CapabilitySet::empty();
    let chown_capability = CapabilitySets { effective: CapabilitySet::CHOWN, permitted: none, inheritable: none };
    let core = Rlimit { current: Some(0), maximum: Some(0) };
    let open = |path: &Path| File::open(path);
    vec![
        ("read_file", of(open(&at("file")))),
        ("read_passwd", of(open(Path::new("/etc/passwd")))),
        ("read_library_folder", of(fs::read_dir("/usr"))),
        ("read_own_maps", of(open(Path::new("/proc/self/maps")))),
        ("read_environment_of_process", of(open(Path::new(&of_victim("environ"))))),
        ("list_folder", of(fs::read_dir(folder))),
        ("stat_file", of(fs::metadata(at("file")))),
        ("read_link", of(fs::read_link("/proc/self/exe"))),
        ("open_device", of(OpenOptions::new().read(true).write(true).open("/dev/zero"))),
        ("write_file", of(OpenOptions::new().write(true).open(at("file")))),
        ("truncate_file", of(OpenOptions::new().write(true).truncate(true).open(at("file")))),
        ("create_file", of(File::create_new(at("new file")))),
        ("create_folder", of(fs::create_dir(at("new folder")))),
        ("link_file", of(fs::hard_link(at("file"), at("new link")))),
        ("link_path", of(symlink("/", at("new path")))),
        ("rename_file", of(fs::rename(at("to rename"), at("renamed")))),
        ("remove_file", of(fs::remove_file(at("to remove")))),
        ("remove_folder", of(fs::remove_dir(at("folder to remove")))),
        ("change_mode", of(fs::set_permissions(at("file to change"), Permissions::from_mode(0o777)))),
        ("change_owner", of(chown(at("file to change"), None, None))),
        ("connect_tcp", of(TcpStream::connect(("127.0.0.1", port)))),
        ("listen_tcp", of(TcpListener::bind("127.0.0.1:0"))),
        ("bind_udp", of(UdpSocket::bind("127.0.0.1:0"))),
        ("connect_unix", of(UnixStream::connect(at("socket")))),
        ("connect_abstract", of(connect_abstract(folder))),
        ("listen_unix", of(UnixListener::bind(at("new socket")))),
        ("socket_pair", of(UnixDatagram::pair())),
        ("execute", of(Command::new("/bin/true").status())),
        ("open_process", errno(pidfd_open(victim, PidfdFlags::empty()))),
        ("limit_process", errno(prlimit(Some(victim), Resource::Core, core))),
        ("lower_priority_of_process", errno(setpriority_process(Some(victim), 19))),
        ("find_parent", errno(test_kill_process(parent))),
        ("find_process", errno(test_kill_process(victim))),
        ("find_process_group", errno(test_kill_process_group(victim))),
        ("find_itself_by_kill", errno(test_kill_process(getpid()))),
        ("gain_capability", errno(set_capabilities(None, chown_capability))),
        ("change_root", of(chroot(folder))),
        // The last one: nothing is left to reach then.
        ("end_process", errno(kill_process(victim, Signal::TERM))),
    ]
}

/// The test listens there.
fn connect_abstract(folder: &Path) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(folder.as_os_str().as_encoded_bytes())?)
}

fn of<T>(result: io::Result<T>) -> i32 {
    result.err().map_or(0, |error| error.raw_os_error().unwrap_or(-1))
}

fn errno<T>(result: Result<T, Errno>) -> i32 {
    result.err().map_or(0, Errno::raw_os_error)
}
