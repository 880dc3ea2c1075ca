//! One child process, and the thread that talks to it.
//!
//! The thread starts the process, writes requests and reads responses, and collects the exit status. It lives as long as the process, for
//! the kernel ends a child together with the *thread* that started it. The caller waits on a channel, so that it can give up and kill.

use std::{
    fs,
    io::{self, Read},
    os::unix::process::CommandExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rustix::{
    io::ioctl_fionread,
    process::{Pid, Signal, kill_process},
};

use super::{error::SandboxError, settings::Program};
use crate::{
    protocol::{FrameError, MAX_SLICE_BYTES, Request, Response, read_frame, write_frame},
    statm::private_pages,
};

/// Pipes as large as the system usually allows, so that columns need few switches between the processes.
const PIPE_BYTES: usize = 1 << 20;

/// Maximum number of bytes of the error output that are kept.
const STDERR_BYTES: u64 = 2 << 10;

/// Maximum time of a child to end after it closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);

/// A request with its bulk data.
pub(super) struct Message {
    pub(super) request: Request,
    pub(super) body: Vec<Bytes>,
}

/// The response to a request.
pub(super) type Reply = Result<(Response, Vec<u8>), Failure>;

/// Why a request has no response.
pub(super) struct Failure {
    pub(super) error: SandboxError,
    /// True if the process ended before it had read the request, and so before it did anything for it.
    pub(super) is_unread: bool,
}

/// A running child process. Dropping it kills the process.
pub(super) struct ChildProcess {
    child: Arc<Mutex<Child>>,
    pid: u32,
    messages: SyncSender<Message>,
    replies: Receiver<Reply>,
}

impl ChildProcess {
    /// Starts a process, in the environment of the program.
    pub(super) fn spawn(program: &Program) -> Result<Self, SandboxError> {
        let (messages, inbox) = sync_channel(1);
        // Room for the last reply of a process that nobody waits for any more.
        let (outbox, replies) = sync_channel(2);
        let (started, start) = sync_channel(1);
        let command = command(program);
        let run = move || {
            if let Some((channel, child)) = Channel::spawn(command, &started) {
                channel.run(&child, &inbox, &outbox);
            }
        };
        let thread = thread::Builder::new().name("sandbox-io".into()).spawn(run);
        thread.map_err(|error| SandboxError::Start(error.to_string()))?;
        let child = start.recv().map_err(|_| SandboxError::Start("the thread that starts it ended".into()))?;
        let child = child.map_err(|error| SandboxError::Start(format!("{}: {error}", program.path.display())))?;
        let pid = lock(&child).id();
        Ok(Self { child, pid, messages, replies })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns true if the process runs, as far as is known.
    pub(super) fn is_alive(&self) -> bool {
        matches!(lock(&self.child).try_wait(), Ok(None))
    }

    /// Sends a request, whose response [`Self::reply`] returns.
    pub(super) fn send(&self, message: Message) {
        // If the thread has ended, so have the replies.
        let _ = self.messages.send(message);
    }

    /// Waits for the response to the last request; `None` if there is none until `until`.
    pub(super) fn reply(&self, until: Instant) -> Option<Reply> {
        match self.replies.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(reply) => Some(reply),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(Failure { error: SandboxError::exited(None, String::new()), is_unread: false }))
            }
        }
    }

    /// Stops the process, wherever it is, until [`Self::resume`].
    pub(super) fn suspend(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Memory that only this process has.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let pages = private_pages(&fs::read_to_string(format!("/proc/{}/statm", self.pid)).ok()?)?;
        Some(pages * rustix::param::page_size() as u64)
    }

    fn signal(&self, signal: Signal) {
        let mut child = lock(&self.child);
        // The id is that of this process until its status has been collected, for which the lock is needed.
        if matches!(child.try_wait(), Ok(None))
            && let Some(pid) = Pid::from_raw(self.pid.cast_signed())
        {
            // A process that has just ended takes no signal.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The thread sees the end of the pipe and collects the status.
        let _ = lock(&self.child).kill();
    }
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    // A signal to the process group of the daemon, such as Ctrl-C, begins a drain, in which calls still need the process.
    command
        .args(&program.arguments)
        .env_clear()
        .envs(program.environment.iter().cloned())
        .current_dir("/")
        .process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The pipes of a child process.
struct Channel {
    stdin: ChildStdin,
    stdout: ChildStdout,
}

impl Channel {
    /// Starts the process and reports it.
    fn spawn(
        mut command: Command,
        started: &SyncSender<io::Result<Arc<Mutex<Child>>>>,
    ) -> Option<(Self, Arc<Mutex<Child>>)> {
        match command.spawn() {
            Ok(mut child) => {
                let stdin = child.stdin.take().expect("the input is a pipe");
                let stdout = child.stdout.take().expect("the output is a pipe");
                // Smaller pipes work as well.
                let _ = rustix::pipe::fcntl_setpipe_size(&stdin, PIPE_BYTES);
                let _ = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_BYTES);
                let child = Arc::new(Mutex::new(child));
                started.send(Ok(Arc::clone(&child))).ok()?;
                Some((Self { stdin, stdout }, child))
            }
            Err(error) => {
                let _ = started.send(Err(error));
                None
            }
        }
    }

    /// Serves requests until the process or the caller ends.
    fn run(mut self, child: &Mutex<Child>, inbox: &Receiver<Message>, outbox: &SyncSender<Reply>) {
        while let Ok(message) = inbox.recv() {
            let reply = self.exchange(&message);
            let failure = match reply {
                Ok(reply) => {
                    if outbox.send(Ok(reply)).is_err() {
                        break;
                    }
                    continue;
                }
                Err(error) => error,
            };
            let is_unread = is_broken_pipe(&failure) || ioctl_fionread(&self.stdin).is_ok_and(|bytes| bytes > 0);
            drop(self);
            let is_io = matches!(failure, FrameError::Io(_));
            let (status, stderr) = end(child, if is_io { EXIT_TIMEOUT } else { Duration::ZERO });
            let error =
                if is_io { SandboxError::exited(status, stderr) } else { SandboxError::Protocol(failure.to_string()) };
            let _ = outbox.try_send(Err(Failure { error, is_unread }));
            return;
        }
        drop(self);
        end(child, Duration::ZERO);
    }

    fn exchange(&mut self, message: &Message) -> Result<(Response, Vec<u8>), FrameError> {
        let body: Vec<&[u8]> = message.body.iter().map(AsRef::as_ref).collect();
        write_frame(&mut self.stdin, &message.request, &body)?;
        let reply = read_frame(&mut self.stdout, MAX_SLICE_BYTES)?;
        reply.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
    }
}

fn is_broken_pipe(error: &FrameError) -> bool {
    matches!(error, FrameError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
}

/// Waits for the end of a process, kills it after `grace`, and returns status and error output.
fn end(child: &Mutex<Child>, grace: Duration) -> (Option<ExitStatus>, String) {
    let until = Instant::now() + grace;
    while Instant::now() < until && matches!(lock(child).try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(1));
    }
    let stderr = {
        let mut child = lock(child);
        let _ = child.kill();
        child.stderr.take()
    };
    // After the kill this does not block for long, and the lock is never held by who may have to kill.
    let status = lock(child).wait().ok();
    (status, stderr.map(read_available).unwrap_or_default())
}

/// Reads the bytes that a process left in its pipe when it ended. If another process has the pipe, this does not wait for it.
fn read_available(stderr: ChildStderr) -> String {
    let mut text = vec![];
    if rustix::io::ioctl_fionbio(&stderr, true).is_ok() {
        let _ = stderr.take(STDERR_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}
