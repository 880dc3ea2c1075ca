//! The generator of the table of methods refuses a method whose options are missing or contradict it.

#[path = "../build/methods.rs"]
mod methods;

use std::{fs, path::PathBuf};

use protox::Compiler;

const LEVEL: &str = "option idempotency_level = NO_SIDE_EFFECTS;";
const ROLE: &str = "option (required_role) = ROLE_WRITE;";
const SIZE: &str = "option (size_class) = SIZE_CLASS_SMALL;";

/// The table of a service with one method, or why there is none. `case` names the folder of its file.
fn generate(case: &str, method: &str, options: &[&str]) -> Result<String, String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(case).join("accelerd/v1");
    fs::create_dir_all(&folder).expect("a folder");
    let text = format!(
        "syntax = \"proto3\"; package accelerd.v1; import \"accelerd/v1/options.proto\"; message Q {{}} message R {{}}\n\
         service EchoService {{ rpc {method} {{ {} }} }}",
        options.join(" ")
    );
    fs::write(folder.join("echo.proto"), text).expect("written");
    let includes = [folder.join("../.."), PathBuf::from(env!("CARGO_MANIFEST_DIR"))];
    let mut compiler = Compiler::new(includes).expect("folders");
    compiler.open_file("accelerd/v1/echo.proto").expect("valid");
    methods::generate(&compiler.descriptor_pool())
}

#[test]
fn a_method_has_an_entry_a_constant_and_a_handler() {
    let text = generate("whole", "SayTwice(Q) returns (stream R)", &[LEVEL, ROLE, SIZE]).expect("a table");
    for part in [
        "path: \"/accelerd.v1.EchoService/SayTwice\", service: \"accelerd.v1.EchoService\", name: \"SayTwice\"",
        "client_streaming: false, server_streaming: true, role: Role::Write, \
         idempotency: IdempotencyLevel::NoSideEffects, size_class: SizeClass::Small",
        "pub mod echo_service {",
        "pub const SAY_TWICE: Rpc<v1::Q, v1::R> =",
        "EchoSayTwice say_twice server_stream small Q R;",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_method_without_an_option_is_refused_by_name() {
    let cases = [("idempotency_level", [ROLE, SIZE]), ("required_role", [LEVEL, SIZE]), ("size_class", [LEVEL, ROLE])];
    for (missing, options) in cases {
        let error = generate(missing, "Say(Q) returns (R)", &options).expect_err(missing);
        assert_eq!(error, format!("accelerd.v1.EchoService.Say: expected the option {missing}, got none"));
    }
    let unspecified = [LEVEL, "option (required_role) = ROLE_UNSPECIFIED;", SIZE];
    let error = generate("unspecified", "Say(Q) returns (R)", &unspecified).expect_err("no role");
    assert!(error.contains("required_role"), "{error}");
}

#[test]
fn a_stream_of_requests_is_not_small() {
    let error = generate("stream", "Say(stream Q) returns (R)", &[LEVEL, ROLE, SIZE]).expect_err("small");
    assert!(error.contains("EchoService.Say: expected another size_class of a stream of requests"), "{error}");
}
