//! Remedies for failed calls. The reason that the daemon names decides; the code alone decides only where there is no reason.

use accelerd_client::{Code, Error, Failure};

/// Suggests a remedy; `None` if the message already says what to do.
pub fn of(error: &Error) -> Option<String> {
    if let Error::Connect { reason, .. } = error {
        return Some(for_connection(reason).to_owned());
    }
    match error.failure() {
        Some(failure) if failure.reason == "MEMORY_LIMIT" => Some(for_memory_limit(failure)),
        Some(failure) if !failure.reason.is_empty() => for_reason(failure).map(str::to_owned),
        _ => for_code(error).map(str::to_owned),
    }
}

/// The reasons are those of docs/errors.md.
fn for_reason(failure: &Failure) -> Option<&'static str> {
    Some(match failure.reason.as_str() {
        "QUEUE_FULL" => "retry later, or send smaller requests; `accelctl stats` shows the queues",
        "WOULD_MISS_DEADLINE" => "increase --timeout, or send smaller requests; `accelctl stats` shows the queues",
        "TRANSPORT_MEMORY_FULL" => {
            "retry later, or with smaller requests: other calls hold admission.max_message_memory"
        }
        "OUT_OF_MEMORY" => "another program may hold the device's memory; `accelctl stats` shows what the daemon holds",
        "SANDBOX_BUSY" => "your earlier calls still run: wait for them, or increase --timeout",
        "SANDBOX_PREEMPTED" => "other callers wait for the sandbox: retry later, or with less work in a call",
        "SANDBOX_OUT_OF_MEMORY" => {
            "use smaller arguments, or raise sandbox.memory, sandbox.case_memory or sandbox.gpu_memory of the daemon"
        }
        "EXHAUSTED" => "free disk space of the daemon, or delete collections with `accelctl collections delete`",
        "STALLED" => "the transfer stood still for longer than the daemon's setting server.stall_timeout",
        "TOO_LARGE" => "send smaller requests: the daemon never admits one of this size",
        "MESSAGE_TOO_LARGE" => "send smaller requests, or raise server.max_message_bytes of the daemon",
        "DEADLINE_IN_QUEUE" | "DEADLINE" => "increase --timeout; `accelctl stats` shows the queues",
        "NO_CREDENTIALS" => NO_CREDENTIALS,
        "WRONG_CREDENTIALS" => "check the token of --token-file or ACCELERD_TOKEN, or the certificate of --tls-cert",
        "ROLE_TOO_LOW" | "COLLECTION_NOT_ALLOWED" | "MODEL_NOT_ALLOWED" => PRINCIPALS,
        "RATE_EXCEEDED" | "BYTES_IN_FLIGHT_EXCEEDED" => "retry later; the daemon's file of principals has the quotas",
        "RESIDENT_BYTES_EXCEEDED" => {
            "delete collections or resident tensors of yours; the daemon's file of principals has the quotas"
        }
        "TENSOR_COUNT_EXCEEDED" => "free resident tensors, which `accelctl tensor list` lists",
        "DRAINING" => "the daemon is draining; `accelctl resume` ends a drain that a client began",
        "DEVICE_LOST" => "`accelctl health` shows which devices are left",
        "UNAVAILABLE" => "the daemon cannot reach an object store or a model hub: check its network, and its proxies",
        "TEXT_INDEX_FAILED" => "`accelctl search --no-hybrid` searches by vectors only",
        "MODEL_CHANGED" => "load the former model, or embed the texts again with `accelctl collections reembed`",
        "COLLECTION_READ_ONLY" => "`accelctl collections restore` creates a collection from an earlier snapshot",
        "SANDBOX_DISABLED" => "start the daemon with sandbox.processes above 0",
        "CUDA_SOURCE_DISABLED" => "start the daemon with sandbox.cuda_source on, if all its callers may run CUDA C++",
        "NO_GPU" => "`accelctl health` says why no GPU is in use",
        "PANIC" | "SANDBOX_CRASHED" => "the daemon's log has the cause",
        "UNKNOWN_METHOD" => "the daemon is older than this client; compare `accelctl health` with --version",
        // The message of these names the remedy, as with NOT_ALLOWED the setting, or there is none.
        _ => return None,
    })
}

const NO_CREDENTIALS: &str =
    "set the token with --token-file or ACCELERD_TOKEN, or a client certificate with --tls-cert and --tls-key";
const PRINCIPALS: &str = "the daemon's file of principals says what each may do";

/// Names the setting that is exceeded and what can be freed, by the kind of memory that was asked for.
fn for_memory_limit(failure: &Failure) -> String {
    let figure = |name: &str| failure.metadata.get(name).map_or("", String::as_str);
    let setting = match figure("setting") {
        "" => "memory.host_limit",
        setting => setting,
    };
    let free = match figure("kind") {
        "collections" | "indexes" | "writers" => "delete collections with `accelctl collections delete`",
        "models" | "copies" => "unload models with `accelctl models unload`",
        "tensors" => "free resident tensors, which `accelctl tensor list` lists",
        "messages" | "requests" => "retry later, or send smaller requests",
        _ => "free collections, models or tensors",
    };
    format!("{free}, or raise {setting} of the daemon; `accelctl stats` shows what holds memory")
}

/// Remedies for errors without a reason.
fn for_code(error: &Error) -> Option<&'static str> {
    let resource = error.failure().and_then(|failure| failure.resource.as_ref()).map(|(kind, _)| kind.as_str());
    let violated = |field: &str| error.failure().is_some_and(|f| f.violations.iter().any(|v| v.field == field));
    Some(match (error.code(), resource) {
        (Code::InvalidArgument, _) if violated("durable") => "start the daemon with `accelerd serve --data-dir FOLDER`",
        (Code::NotFound, Some("collection")) => {
            "`accelctl collections list` lists the collections; `accelctl index` creates one"
        }
        (Code::NotFound, Some("model")) => "`accelctl models` lists the loaded models",
        (Code::NotFound, Some("kernel")) => "`accelctl kernel list` lists the compiled kernels",
        (Code::NotFound, Some("tensor")) => "`accelctl tensor list` lists the resident tensors",
        (Code::AlreadyExists, _) => "choose another name, or delete it with `accelctl collections delete`",
        (Code::ResourceExhausted, _) => "retry later, or send smaller requests; `accelctl stats` shows the queues",
        (Code::DeadlineExceeded, _) => "increase --timeout; `accelctl stats` shows the queues",
        (Code::Unauthenticated, _) => NO_CREDENTIALS,
        (Code::PermissionDenied, _) => PRINCIPALS,
        (Code::Cancelled | Code::Unknown | Code::Internal | Code::Unavailable, _) if is_broken(error) => {
            "the connection broke; if the daemon serves TLS, use an https:// address; --server names its gRPC port (by \
             default 7433), not the one of its metrics"
        }
        (Code::Unavailable, _) => "the daemon is draining or the connection broke; see `accelctl health`",
        // A daemon names the reason UNKNOWN_METHOD.
        (Code::Unimplemented, _) => {
            "--server names something else than the gRPC port of a daemon (by default 7433); its health port answers \
             health checks only"
        }
        _ => return None,
    })
}

/// Messages of hyper, h2 and the operating system about a connection that ended: which of them notices first is a matter of timing.
const BROKEN: [&str; 5] =
    ["connection closed", "connection reset", "connection was not ready", "broken pipe", "invalid size"];

/// Returns true if the transport failed after it was connected, as with plaintext to a daemon that serves TLS.
fn is_broken(error: &Error) -> bool {
    let message = error.to_string().to_lowercase();
    BROKEN.iter().any(|part| message.contains(part))
}

/// Suggests a remedy for a failed connection.
fn for_connection(reason: &str) -> &'static str {
    if reason.contains("UnknownIssuer") || reason.contains("BadSignature") {
        "name the authority of the daemon's certificate with --tls-ca"
    } else if reason.contains("not valid for name") {
        "set --server to a name in the certificate, or name one with --tls-server-name"
    } else if reason.contains("InvalidContentType") {
        "does the daemon serve TLS? without it, use an http:// address"
    } else {
        "is the daemon running? start it with `accelerd serve`, or set its address with --server"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: Code, reason: &str, metadata: &[(&str, &str)]) -> Error {
        Failure {
            code,
            message: "m".into(),
            violations: vec![],
            retry_after: None,
            resource: None,
            attempts: 1,
            reason: reason.into(),
            metadata: metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
        .into()
    }

    #[test]
    fn one_code_has_the_remedies_of_its_reasons() {
        let hint = |code, reason| of(&failure(code, reason, &[])).unwrap_or_default();
        let exhausted = |reason| hint(Code::ResourceExhausted, reason);
        assert!(exhausted("QUEUE_FULL").contains("retry later"));
        assert!(exhausted("MESSAGE_TOO_LARGE").contains("server.max_message_bytes"));
        assert!(exhausted("EXHAUSTED").contains("disk"));
        assert!(exhausted("").contains("accelctl stats"), "a daemon that names no reason");
        assert!(hint(Code::PermissionDenied, "ROLE_TOO_LOW").contains("principals"));
        assert_eq!(hint(Code::PermissionDenied, "NOT_ALLOWED"), "", "the message names the setting");
        assert!(hint(Code::Unimplemented, "UNKNOWN_METHOD").contains("older"));
        assert!(hint(Code::Unimplemented, "").contains("health port"));
    }

    #[test]
    fn a_memory_limit_names_its_setting_and_what_can_be_freed() {
        let of_kind = |kind, setting| {
            let figures = [("kind", kind), ("setting", setting)];
            of(&failure(Code::ResourceExhausted, "MEMORY_LIMIT", &figures)).expect("a hint")
        };
        let collections = of_kind("collections", "store.memory_limit");
        assert!(collections.contains("collections delete") && collections.contains("raise store.memory_limit"));
        assert!(of_kind("tensors", "tensors.gpu_share").contains("tensor list"));
        assert!(of_kind("messages", "").contains("raise memory.host_limit"));
    }
}
