//! Rate limiting of the log under floods of stream resets.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use serde_json::Value;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Opens calls on a connection and resets them at once until the daemon closes it.
fn flood(address: &str) {
    let mut stream = TcpStream::connect(address).expect("the daemon accepts connections");
    let mut bytes = [PREFACE, &frame(4, 0, 0, &[])].concat();
    // POST, http, / and an authority; then RST_STREAM with CANCEL.
    for id in (1..1000).step_by(2) {
        bytes.extend(frame(1, 4, id, &[0x83, 0x86, 0x84, 0x41, 1, b'a']));
        bytes.extend(frame(3, 0, id, &8_u32.to_be_bytes()));
    }
    // The daemon may close the connection before all is written.
    let _closed = stream.write_all(&bytes);
    let _end = stream.read_to_end(&mut vec![]);
}

#[test]
fn floods_of_resets_do_not_flood_the_log() {
    const FLOODS: usize = 20;
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelerd"));
    for key in ["SERVER__LISTEN", "SERVER__ADMIN_LISTEN", "SERVER__HEALTH_LISTEN", "HTTP__LISTEN"] {
        command.env(format!("ACCELERD__{key}"), "127.0.0.1:0");
    }
    command.env("ACCELERD__BACKEND__KIND", "cpu").env("ACCELERD__TELEMETRY__LOG_FORMAT", "json");
    command.env("ACCELERD__DRAIN__ENDPOINT_DELAY", "0s").env("ACCELERD__SERVER__MAX_PENDING_RESETS", "20");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines().map_while(Result::ok);
    let parse = |line: String| serde_json::from_str::<Value>(&line).unwrap_or_default();
    let serving = lines.by_ref().map(parse).find(|line| line["message"] == "serving").expect("the daemon serves");
    let address = serving["grpc"].as_str().expect("an address").to_owned();
    (0..FLOODS).for_each(|_| flood(&address));
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    let warnings: Vec<_> = lines.map(parse).filter(|line| line["level"] == "WARN").collect();
    child.wait().expect("the daemon exits");
    let floods = warnings.iter().filter(|line| line.to_string().contains("flooding")).count();
    assert_eq!((floods, warnings.len()), (5, 5), "the 1st, 2nd, 4th, 8th and 16th of {FLOODS}: {warnings:#?}");
}
