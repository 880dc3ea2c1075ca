//! Text that others store does not act on the terminal that shows it.

use std::{
    fs,
    process::{Command, Stdio},
};

use accelerd_proto::v1 as proto;
use accelerd_test_support::FakeDaemon;
use tonic::Status;

/// Moves the cursor, sets the title and the colour, forges a line, and reverses the text after it.
const HOSTILE: &str = "a\x1b[2J\x1b]0;owned\x07\x1b[32m\u{9b}31m\r\nerror: forged\u{2028}\u{202e}\u{2066}\x7f";

/// Standard output and standard error of a command.
async fn shown(server: &str, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelctl"));
    command.args(words).env("ACCELERD_SERVER", server).env_remove("NO_COLOR").stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
    let printed = [output.stdout, output.stderr].concat();
    String::from_utf8(printed).expect("text")
}

/// Removes the styles of the program, which are all that `--color always` may add.
fn without_own_styles(text: &str) -> String {
    ["0", "1", "2", "36", "1;36", "32", "33", "1;31"]
        .iter()
        .fold(text.to_owned(), |text, code| text.replace(&format!("\x1b[{code}m"), ""))
}

fn acts_on_a_terminal(c: char) -> bool {
    c != '\n' && (c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

/// A daemon with hostile names in everything that it lists, and a folder with a hostile file.
async fn hostile() -> (FakeDaemon, String, tempfile::TempDir) {
    let fake = FakeDaemon::default();
    let server = format!("http://{}", fake.listen().await);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = format!("tree{HOSTILE}");
    let tree = folder.path().join(&name);
    fs::create_dir(&tree).expect("it is made");
    let file = tree.join(format!("{HOSTILE}.py"));
    fs::write(&file, format!("def find_tcp():\n    tcp = '{}'\n    !\n", HOSTILE.replace('\n', "")))
        .expect("it is written");
    let path = tree.to_str().expect("UTF-8").to_owned();
    shown(&server, &["index", &path, "-c", "code", "--name", &name]).await;
    let kernel = proto::Kernel {
        id: HOSTILE.into(),
        name: HOSTILE.into(),
        params: vec![proto::KernelParam { name: HOSTILE.into(), ..Default::default() }],
        written_arrays: vec![HOSTILE.into()],
        ..Default::default()
    };
    fake.state().kernels.push((kernel, String::new()));
    let tensor = proto::ResidentTensor { handle: HOSTILE.into(), device: HOSTILE.into(), ..Default::default() };
    fake.state().tensors.push((tensor, proto::Tensor::default()));
    (fake, server, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_prints_a_control_character_of_a_name_or_a_snippet() {
    let (_fake, server, folder) = hostile().await;
    let path = folder.path().to_str().expect("UTF-8");
    let missing = format!("missing{HOSTILE}");
    let commands: [&[&str]; 9] = [
        &["search", "find tcp", "-c", "code", "--root", path],
        &["search", "find tcp", "-c", "code", "--root", path, "--no-hybrid"],
        &["parse", path],
        &["parse", path, "--tokens"],
        &["index", path, "-c", "code", "--dry-run"],
        &["kernel", "list"],
        &["tensor", "list"],
        &["collections", "describe", &missing],
        &["search", HOSTILE, "-c", &missing],
    ];
    for words in commands {
        for options in [&["--color", "never"][..], &["--color", "always"], &["--json"]] {
            let text = shown(&server, &[words, options].concat()).await;
            let text = without_own_styles(&text);
            assert!(!text.contains(acts_on_a_terminal), "{words:?} {options:?}: {text:?}");
            assert!(!text.contains("\nerror: forged"), "{words:?} {options:?}: {text:?}");
        }
    }
    let found = shown(&server, &["search", "find tcp", "-c", "code", "--root", path]).await;
    assert!(found.contains("\\u{1b}[2J") && found.contains("def find_tcp"), "{found}");
    let kernels = shown(&server, &["kernel", "list"]).await;
    assert!(kernels.contains("unknown") && kernels.contains("\\u{1b}[2J"), "{kernels}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_the_daemon_are_one_line_without_control_characters() {
    let (fake, server, _folder) = hostile().await;
    for options in [&["--color", "never"][..], &["--color", "always"], &["--json"]] {
        fake.fail_next([Status::invalid_argument(HOSTILE)]);
        let text = shown(&server, &[&["collections", "list"], options].concat()).await;
        let text = without_own_styles(&text);
        assert!(!text.contains(acts_on_a_terminal), "{options:?}: {text:?}");
        assert!(text.contains("error") && !text.contains("\nerror: forged"), "{options:?}: {text:?}");
    }
}
