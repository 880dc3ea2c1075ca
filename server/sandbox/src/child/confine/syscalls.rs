//! System calls, by seccomp filters of all threads. A filter cannot be removed, and the strictest answer of all filters counts.
//!
//! A call that is not allowed fails with `EPERM`. It does not end the process: libraries try calls that they can do without.

use std::{collections::BTreeMap, env, io};

use libc::{EINVAL, ENOSYS, EPERM};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, apply_filter_all_threads, sock_filter,
};

/// Calls by number, each with alternative conditions on its arguments; without one, any arguments match.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Programs = Result<Vec<BpfProgram>, BackendError>;

/// System calls of code that computes: in memory, in threads, and with the files that are open.
const COMPUTING: [i64; 45] = [
    // Files that are open.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    // Memory. Images of instances are files in memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    libc::SYS_membarrier,
    // Threads. `clone` has a rule of its own.
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    // Signals of the process to itself, such as those of traps.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Time.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    libc::SYS_times,
    // Queries of compilers about the machine.
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    // The end.
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// System calls that no driver needs: other processes, the network, and changes of files and of the system.
const FOREIGN: [i64; 94] = [
    // Programs and processes. `clone` has a rule of its own.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    // Signals.
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    // The network.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    // Memory that processes share by name or number.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Changes of files and folders.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_utimensat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_renameat2,
    libc::SYS_truncate,
    libc::SYS_open_by_handle_at,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    // Mounts and namespaces.
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_setns,
    libc::SYS_unshare,
    // Interfaces of the kernel that are often attacked.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
];

/// `fchmodat2`, whose number is the same on all architectures; `libc` lacks it on AArch64.
const FCHMODAT2: i64 = 452;

/// Those of `FOREIGN` that only older architectures have.
#[cfg(target_arch = "x86_64")]
const FOREIGN_LEGACY: [i64; 20] = [
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_creat,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_unlink,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_inotify_init,
    libc::SYS_modify_ldt,
    libc::SYS_kexec_file_load,
];
/// The first is `renameat`, which `libc` lacks here.
#[cfg(target_arch = "aarch64")]
const FOREIGN_LEGACY: [i64; 2] = [38, libc::SYS_kexec_file_load];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const FOREIGN_LEGACY: [i64; 0] = [];

/// Calls whose arguments lie in memory, where a filter cannot read them. Callers fall back to older calls.
const OPAQUE: [i64; 2] = [libc::SYS_clone3, libc::SYS_openat2];

/// `PAGEMAP_SCAN`, with which wasmtime finds the pages that an instance has written.
const PAGEMAP_SCAN: u64 = 0xc060_6610;

const THREAD_FLAGS: libc::c_int = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
const NAMESPACE_FLAGS: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Allows computing, and nothing else. Returns whether the kernel has filters.
pub(super) fn allow_computing() -> io::Result<bool> {
    apply(computing(), apply_filter_all_threads)
}

/// Denies what reaches other processes, the network, or changes files. Returns whether the kernel has filters.
pub(super) fn deny_other_processes() -> io::Result<bool> {
    apply(without_other_processes(), apply_filter_all_threads)
}

/// Installs a filter in this thread that changes nothing. Returns whether the kernel has filters.
pub(super) fn allow_all() -> io::Result<bool> {
    apply(Ok(vec![vec![answer(libc::SECCOMP_RET_ALLOW)]]), apply_filter)
}

fn apply(programs: Programs, install: impl Fn(&[sock_filter]) -> Result<(), Error>) -> io::Result<bool> {
    let programs = match programs {
        // There are filters for x86-64, AArch64 and RISC-V.
        Err(BackendError::InvalidTargetArch(_)) => return Ok(false),
        programs => programs.map_err(io::Error::other)?,
    };
    for program in &programs {
        match install(program) {
            Ok(()) => {}
            // The kernel has none, or the filter of a container denies them.
            Err(Error::Seccomp(error)) if matches!(error.raw_os_error(), Some(ENOSYS | EINVAL | EPERM)) => {
                return Ok(false);
            }
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(true)
}

fn computing() -> Programs {
    let mut rules: Rules = COMPUTING.iter().map(|call| (*call, vec![])).collect();
    rules.insert(libc::SYS_clone, vec![rule([masked(0, THREAD_FLAGS | NAMESPACE_FLAGS, THREAD_FLAGS)?])?]);
    rules.insert(libc::SYS_tgkill, vec![rule([equal(0, own_pid())?])?]);
    // Its own limits, which it can only lower.
    rules.insert(libc::SYS_prlimit64, vec![rule([equal(0, 0)?])?]);
    rules.insert(libc::SYS_ioctl, vec![rule([equal(1, PAGEMAP_SCAN)?])?]);
    rules.insert(libc::SYS_prctl, vec![rule([equal(0, number(libc::PR_SET_NAME))?])?]);
    // The others could have the kernel send signals about a pipe to any process of this user.
    let commands = [libc::F_GETFD, libc::F_GETFL, libc::F_ADD_SEALS];
    rules.insert(libc::SYS_fcntl, alternatives(1, &commands)?);
    Ok(vec![opaque()?, filter(rules, denied(EPERM), SeccompAction::Allow)?])
}

fn without_other_processes() -> Programs {
    let mut rules: Rules = FOREIGN.iter().chain(&FOREIGN_LEGACY).map(|call| (*call, vec![])).collect();
    let is_process = rule([masked(0, libc::CLONE_THREAD, 0)?])?;
    rules.insert(libc::SYS_clone, vec![is_process]);
    rules.insert(libc::SYS_tgkill, vec![rule([condition(0, SeccompCmpOp::Ne, own_pid())?])?]);
    rules.insert(libc::SYS_prlimit64, vec![rule([condition(0, SeccompCmpOp::Ne, 0)?])?]);
    rules.insert(libc::SYS_prctl, alternatives(0, &[libc::PR_SET_PDEATHSIG, libc::PR_SET_DUMPABLE])?);
    rules.insert(libc::SYS_fcntl, alternatives(1, &[libc::F_SETOWN, F_SETSIG, F_SETOWN_EX])?);
    rules.insert(libc::SYS_openat, changing_flags(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, changing_flags(1)?);
    let mut programs = vec![opaque()?, filter(rules, SeccompAction::Allow, denied(EPERM))?];
    if cfg!(target_arch = "x86_64") {
        programs.push(without_x32());
    }
    Ok(programs)
}

/// `F_SETSIG` and `F_SETOWN_EX`, which `libc` does not have.
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;

/// Flags of a call that creates or truncates a file.
fn changing_flags(argument: u8) -> Result<Vec<SeccompRule>, BackendError> {
    [libc::O_CREAT, libc::O_TRUNC].into_iter().map(|flag| rule([masked(argument, flag, flag)?])).collect()
}

/// Calls that do not exist here.
fn opaque() -> Result<BpfProgram, BackendError> {
    filter(OPAQUE.iter().map(|call| (*call, vec![])).collect(), SeccompAction::Allow, denied(ENOSYS))
}

/// Denies the numbers of x32, by which all calls could be made a second time.
fn without_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let load_number = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let if_x32 = sock_filter { code: 0x35, jt: 0, jf: 1, k: X32_BIT };
    let no_call = answer(libc::SECCOMP_RET_ERRNO | ENOSYS.unsigned_abs());
    vec![load_number, if_x32, no_call, answer(libc::SECCOMP_RET_ALLOW)]
}

/// The instruction that ends a filter.
fn answer(k: u32) -> sock_filter {
    sock_filter { code: 0x06, jt: 0, jf: 0, k }
}

fn filter(rules: Rules, others: SeccompAction, matching: SeccompAction) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, others, matching, env::consts::ARCH.try_into()?)?.try_into()
}

fn denied(errno: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(errno.unsigned_abs())
}

fn rule<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into())
}

/// A rule for each value of an argument.
fn alternatives(argument: u8, values: &[libc::c_int]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|value| rule([equal(argument, number(*value))?])).collect()
}

fn equal(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn masked(argument: u8, mask: libc::c_int, value: libc::c_int) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::MaskedEq(number(mask)), number(value))
}

/// The arguments here have 32 bits; the kernel ignores the upper ones.
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn own_pid() -> u64 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs().into()
}

/// The bits of an argument.
fn number(value: libc::c_int) -> u64 {
    u64::from(value.cast_unsigned())
}
