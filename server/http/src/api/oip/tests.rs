//! Malformed requests over both wires are refused by name, and none panics.

use accelerd_proto::inference::{
    self as pb, InferTensorContents,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};
use bytes::Bytes;
use http::StatusCode;
use proptest::prelude::*;
use prost::Message;

use super::{
    datatype::Datatype,
    elements::Elements,
    grpc::from_grpc,
    http_request::decode,
    metadata::check_version,
    request::{Request, check_outputs, take_inputs},
    tensor::Tensor,
};
use crate::failure::Failure;

fn decoded(json: &str, binary: &[u8]) -> Result<Request, Failure> {
    let body = Bytes::from([json.as_bytes(), binary].concat());
    Ok(decode(&body, json.len(), "m".to_owned(), String::new())?.0)
}

/// A body with one input; `rest` are further members of it.
fn input(datatype: &str, shape: &str, rest: &str) -> String {
    format!(r#"{{"inputs": [{{"name": "x", "datatype": "{datatype}", "shape": {shape}{rest}}}]}}"#)
}

/// Why an input is refused.
fn refusal(datatype: &str, shape: &str, rest: &str, binary: &[u8]) -> String {
    let failure = decoded(&input(datatype, shape, rest), binary).expect_err("it is refused");
    assert_eq!(failure.status, StatusCode::BAD_REQUEST);
    failure.message
}

/// The only input of a request.
fn only(request: Request) -> Tensor {
    let [tensor] = <[Tensor; 1]>::try_from(request.inputs).expect("one input");
    tensor
}

fn message(datatype: &str, shape: &[i64], contents: InferTensorContents) -> pb::ModelInferRequest {
    let contents = Some(contents);
    let input = InferInputTensor {
        name: "x".to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        contents,
        ..Default::default()
    };
    pb::ModelInferRequest { model_name: "m".to_owned(), inputs: vec![input], ..Default::default() }
}

fn raw(datatype: &str, shape: &[i64], data: &'static [u8]) -> pb::ModelInferRequest {
    let raw_input_contents = vec![Bytes::from_static(data)];
    pb::ModelInferRequest { raw_input_contents, ..message(datatype, shape, InferTensorContents::default()) }
}

const TWO_TEXTS: &[u8] = b"\x01\0\0\0a\x03\0\0\0\xe2\x82\xac";

#[test]
fn elements_are_the_same_in_json_as_binary_data_and_over_grpc() {
    for (datatype, json, data) in [
        ("BOOL", "[[true], [false]]", &b"\x01\0"[..]),
        ("INT8", "[-128, 127]", b"\x80\x7f"),
        ("UINT16", "[[0, 65535]]", b"\0\0\xff\xff"),
        ("INT32", "[1, -1]", b"\x01\0\0\0\xff\xff\xff\xff"),
        ("UINT64", "[18446744073709551615, 0]", b"\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0"),
        ("FP32", "[1, -0.1]", b"\0\0\x80\x3f\xcd\xcc\xcc\xbd"),
        ("FP64", "[1, 0.1]", b"\0\0\0\0\0\0\xf0\x3f\x9a\x99\x99\x99\x99\x99\xb9\x3f"),
        ("BYTES", r#"["a", "\u20ac"]"#, TWO_TEXTS),
    ] {
        let in_json = decoded(&input(datatype, "[2]", &format!(r#", "data": {json}"#)), b"").expect(datatype);
        let size = format!(r#", "parameters": {{"binary_data_size": {}}}"#, data.len());
        assert_eq!(decoded(&input(datatype, "[2]", &size), data).expect(datatype), in_json);
        assert_eq!(from_grpc(raw(datatype, &[2], data)).expect(datatype), in_json);
        let tensor = only(in_json);
        assert_eq!(tensor.data, data);
        let written = serde_json::to_string(&Elements::of(&tensor).expect("JSON has it")).expect("JSON");
        let again = decoded(&input(datatype, "[2]", &format!(r#", "data": {written}"#)), b"").expect(datatype);
        assert_eq!(only(again), tensor);
    }
    let texts = only(decoded(&input("BYTES", "[2, 1]", r#", "data": ["a", "\u20ac"]"#), b"").expect("texts"));
    assert_eq!(texts.texts().expect("UTF-8"), ["a", "€"]);
}

#[test]
fn contents_of_grpc_are_in_the_field_of_their_type() {
    let data = |datatype: &str, contents| Ok::<_, Failure>(only(from_grpc(message(datatype, &[2], contents))?).data);
    let contents = InferTensorContents::default;
    let ints = |values: [i32; 2]| InferTensorContents { int_contents: values.to_vec(), ..contents() };
    assert_eq!(data("INT8", ints([-1, 1])).expect("bytes"), &b"\xff\x01"[..]);
    let texts = InferTensorContents { bytes_contents: vec!["a".into(), "€".into()], ..contents() };
    assert_eq!(data("BYTES", texts).expect("texts"), TWO_TEXTS);
    let floats = InferTensorContents { fp32_contents: vec![1.0, 2.0], ..contents() };
    assert_eq!(data("FP32", floats.clone()).expect("numbers"), &b"\0\0\x80\x3f\0\0\0\x40"[..]);
    for (datatype, contents, said) in [
        ("INT8", ints([128, 0]), "out of range"),
        ("INT64", ints([1, 2]), "expected the elements of INT64 in int64_contents, got int_contents"),
        ("FP16", floats.clone(), "expected the elements of FP16 in raw_input_contents, got fp32_contents"),
        ("FP64", contents(), "expected 2 elements of FP64"),
        ("INT64", InferTensorContents { int64_contents: vec![1], ..contents() }, "got 8 bytes"),
    ] {
        let failure = data(datatype, contents).expect_err(said);
        assert!(failure.message.contains(said), "{}", failure.message);
    }
    let both = pb::ModelInferRequest {
        raw_input_contents: vec![Bytes::from_static(&[0; 8])],
        ..message("FP32", &[2], floats)
    };
    let said = |message| from_grpc(message).expect_err("refused").message;
    assert_eq!(said(both), "x: expected contents or raw_input_contents, got both");
    let mut two = raw("FP32", &[0], b"");
    two.raw_input_contents.push(Bytes::new());
    assert_eq!(said(two), "raw_input_contents: expected none, or one for each of the 1 inputs, got 2");
}

#[test]
fn data_that_does_not_fit_its_shape_is_refused() {
    let values = |data: &str| format!(r#", "data": {data}"#);
    for (shape, data, said) in [
        ("[3]", "[1, 2]", "expected 3 elements of INT32, 4 bytes each, for the shape [3]; got 8 bytes"),
        ("[0]", "[1]", "expected 0 elements"),
        ("[]", "[]", "expected 1 elements"),
        ("[-1]", "[1]", "expected extents of 0 or more in the shape, got [-1]"),
        ("[2, -1]", "[1, 2]", "expected extents of 0 or more"),
        ("[9223372036854775807, 9223372036854775807]", "[1]", "has too many elements"),
        ("[4611686018427387904]", "[1]", "expected 4611686018427387904 elements"),
    ] {
        let message = refusal("INT32", shape, &values(data), b"");
        assert!(message.starts_with("x: ") && message.contains(said), "{message}");
    }
    for shape in ["[9223372036854775808]", "[1.5]", "\"1\"", "null", "1"] {
        refusal("INT32", shape, &values("[1]"), b"");
    }
    assert!(only(decoded(&input("INT32", "[0, 5]", &values("[]")), b"").expect("no elements")).data.is_empty());
}

#[test]
fn elements_of_other_types_are_refused() {
    for (datatype, element) in [
        ("INT32", "2147483648"),
        ("INT32", "1.5"),
        ("INT32", "\"1\""),
        ("UINT8", "-1"),
        ("UINT64", "18446744073709551616"),
        ("BOOL", "1"),
        ("FP32", "1e39"),
        ("FP64", "null"),
        ("BYTES", "1"),
        ("BYTES", "{}"),
    ] {
        let message = refusal(datatype, "[1]", &format!(r#", "data": [{element}]"#), b"");
        assert!(message.starts_with(&format!("x: expected elements of {datatype}, got ")), "{message}");
    }
    assert!(refusal("FP16", "[1]", r#", "data": [1]"#, b"").contains("send binary data"));
    assert!(refusal("STRING", "[1]", r#", "data": [1]"#, b"").contains("got \"STRING\""));
    assert_eq!(refusal("FP32", "[1]", r#", "data": 1"#, b""), "x: expected a list as the data");
    let deep = format!(r#", "data": {}{}"#, "[".repeat(5000), "]".repeat(5000));
    assert!(refusal("FP32", "[1]", &deep, b"").contains("recursion"));
}

#[test]
fn lengths_of_binary_data_must_add_up() {
    let of_size = |size: &str| format!(r#", "parameters": {{"binary_data_size": {size}}}"#);
    for (size, binary, said) in [
        ("8", &[0; 4][..], "binary_data_size is 8, but 4 bytes of binary data are left"),
        ("18446744073709551615", &[0; 4], "expected an integer of 0 or more"),
        ("9223372036854775807", &[0; 4], "but 4 bytes"),
        ("-1", &[0; 4], "expected an integer of 0 or more"),
        ("\"4\"", &[0; 4], "expected an integer of 0 or more"),
        ("4", &[0; 5], "expected 4 bytes of binary data by binary_data_size, got 5"),
        ("3", &[0; 3], "got 3 bytes"),
    ] {
        let message = refusal("INT32", "[1]", &of_size(size), binary);
        assert!(message.contains(said), "{message}");
    }
    let both = format!(r#"{}, "data": [1]"#, of_size("4"));
    assert_eq!(refusal("INT32", "[1]", &both, &[0; 4]), "x: expected data or binary_data_size, got both");
    assert_eq!(refusal("INT32", "[1]", "", b""), "x: expected data or binary_data_size, got neither");
    let extension = r#", "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 4}"#;
    assert_eq!(refusal("INT32", "[1]", extension, b""), "x: the extension shared_memory_region is not supported");
}

#[test]
fn lengths_of_texts_must_add_up() {
    let refused = |shape: &[i64], data| from_grpc(raw("BYTES", shape, data)).expect_err("refused").message;
    assert!(refused(&[1], b"\x02\0\0\0a").contains("element 0 of BYTES exceeds the data, of which 5 bytes are left"));
    assert!(refused(&[2], b"\0\0\0\0\xff\xff\xff\xffa").contains("element 1 of BYTES exceeds"));
    assert!(refused(&[1], b"\x01\0\0").contains("element 0 of BYTES exceeds"));
    assert_eq!(refused(&[1], b"\0\0\0\0\0\0\0\0"), "x: expected 1 elements for the shape [1], got 2");
    let texts = |shape: &[i64], data| {
        let tensor = only(from_grpc(raw("BYTES", shape, data)).expect("well-formed"));
        tensor.texts().expect_err("no list of texts").message
    };
    assert_eq!(texts(&[0], b""), "x: expected at least one element, got none");
    assert!(texts(&[1], b"\x01\0\0\0\xff").starts_with("x: element 0: invalid utf-8"));
    assert!(texts(&[2, 2], b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").contains("expected the shape [n]"));
    assert!(texts(&[], b"\0\0\0\0").contains("expected the shape [n]"));
    let numbers = only(from_grpc(raw("FP32", &[1], b"\0\0\0\0")).expect("well-formed"));
    assert_eq!(numbers.texts().expect_err("numbers").message, "x: expected the datatype BYTES, got FP32");
}

#[test]
fn a_header_that_ends_within_the_json_is_refused() {
    let json = input("BYTES", "[1]", ", \"data\": [\"\u{20ac}\"]");
    let body = Bytes::from(json.clone());
    for length in 0..json.len() {
        let failure = decode(&body, length, "m".to_owned(), String::new()).expect_err("it is cut");
        assert!(failure.message.starts_with("the body: "), "{}", failure.message);
    }
    decode(&body, json.len(), "m".to_owned(), String::new()).expect("it is whole");
}

#[test]
fn inputs_and_outputs_are_those_of_the_model() {
    let tensor = |name: &str| Tensor::new(name.to_owned(), Datatype::Bool, vec![0], Bytes::new()).expect("no elements");
    let taken = |names: &[&str]| take_inputs(names.iter().map(|name| tensor(name)).collect(), &["a", "b"]);
    let names: Vec<_> = taken(&["b", "a"]).expect("both").into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["a", "b"]);
    for (names, said) in [
        (&["a"][..], "b: expected an input of this name, got none"),
        (&["a", "b", "c"], "c: unknown input; the model has a, b"),
        (&["a", "a"], "a: expected one input of this name, got two"),
    ] {
        assert_eq!(taken(names).expect_err(said).message, said);
    }
    let outputs =
        |asked: &[&str]| check_outputs(&asked.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), &["y"]);
    outputs(&[]).and_then(|()| outputs(&["y"])).expect("all, and one");
    assert_eq!(outputs(&["z"]).expect_err("unknown").message, "z: unknown output; the model has y");
    assert_eq!(outputs(&["y", "y"]).expect_err("twice").message, "y: expected to be asked for once, got twice");
    assert_eq!(check_version("m", "2", 1).expect_err("another").status, StatusCode::NOT_FOUND);
    check_version("m", "", 1).and_then(|()| check_version("m", "1", 1)).expect("the newest, and the first");
}

#[test]
fn outputs_are_binary_as_their_parameters_say() {
    let binary = |parameters: &str| {
        let named =
            |name: &str, binary: bool| format!(r#"{{"name": "{name}", "parameters": {{"binary_data": {binary}}}}}"#);
        let outputs = format!(r#"[{}, {}, {{"name": "c"}}]"#, named("a", true), named("b", false));
        let body = Bytes::from(format!(r#"{{"inputs": [], "outputs": {outputs}, "parameters": {parameters}}}"#));
        let (request, binary) = decode(&body, body.len(), "m".to_owned(), String::new()).expect("well-formed");
        assert_eq!(request.outputs, ["a", "b", "c"]);
        ["a", "b", "c"].map(|name| binary.contains(name))
    };
    assert_eq!(binary("{}"), [true, false, false]);
    assert_eq!(binary(r#"{"binary_data_output": true}"#), [true, false, true]);
    assert_eq!(binary("null"), [true, false, false]);
    let classified = r#"{"inputs": [], "outputs": [{"name": "a", "parameters": {"classification": 3}}]}"#;
    assert!(decoded(classified, b"").expect_err("refused").message.contains("classification"));
    let numbers = |bits: u32| {
        let data = bits.to_le_bytes().to_vec().into();
        Tensor::new("y".to_owned(), Datatype::Fp32, vec![1], data).expect("a number")
    };
    assert!(Elements::of(&numbers(f32::NAN.to_bits())).err().expect("NaN").message.contains("binary_data"));
}

proptest! {
    #[test]
    fn no_request_of_any_api_panics(data in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzz::decode(&data);
    }

    #[test]
    fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..200), length in 0usize..200) {
        let body = Bytes::from(body);
        let length = length.min(body.len());
        let _any = decode(&body, length, String::new(), String::new());
        if let Ok(message) = pb::ModelInferRequest::decode(body) {
            let _any = from_grpc(message);
        }
    }

    #[test]
    fn no_mutated_body_panics(at in 0usize..200, byte: u8, cut in 0usize..40, length in 0usize..220) {
        let json = input("BYTES", "[2]", r#", "parameters": {"binary_data_size": 12}"#);
        let mut body = [json.as_bytes(), TWO_TEXTS].concat();
        let end = body.len();
        body[at % end] = byte;
        body.truncate(end - cut);
        let length = [length, json.len()][at % 2].min(body.len());
        let _any = decode(&body.into(), length, String::new(), String::new());
    }

    #[test]
    fn shapes_and_data_fit_or_are_refused(
        shape in prop::collection::vec(prop_oneof![-2i64..5, any::<i64>()], 0..4),
        data in prop::collection::vec(0u8..4, 0..40),
        datatype in prop::sample::select(vec!["BOOL", "INT16", "FP32", "FP64", "BYTES"]),
    ) {
        let mut message = message(datatype, &shape, InferTensorContents::default());
        message.raw_input_contents = vec![data.into()];
        message.outputs = vec![InferRequestedOutputTensor::default()];
        if let Ok(request) = from_grpc(message) {
            let tensor = only(request);
            let count: i64 = tensor.shape.iter().product();
            let got = tensor.datatype.size().map_or_else(|| tensor.bytes_elements().count(), |size| tensor.data.len() / size);
            prop_assert_eq!(i64::try_from(got).expect("few"), count);
            let _any = tensor.texts();
        }
    }
}

mod graph_files {
    use std::fs;

    use crate::graphs::Graphs;

    #[test]
    fn a_changed_file_is_a_new_version() {
        let folder = tempfile::tempdir().expect("a folder");
        let graphs = Graphs::new(Some(folder.path().to_owned()));
        let path = folder.path().join("a.graph");
        let version = || graphs.open("a").expect("readable").map(|file| (file.version, file.length));
        assert_eq!(version(), None);
        fs::write(&path, "1").expect("written");
        assert_eq!((version(), version()), (Some((1, 1)), Some((1, 1))));
        fs::write(folder.path().join("new"), "2")
            .and_then(|()| fs::rename(folder.path().join("new"), &path))
            .expect("replaced");
        assert_eq!(version(), Some((2, 1)), "of equal size");
        fs::write(&path, "333").expect("written");
        fs::write(folder.path().join("b.txt"), "").expect("written");
        assert_eq!(graphs.list().expect("readable"), [("a".to_owned(), 3)]);
        fs::remove_file(&path).expect("removed");
        assert_eq!(version(), None);
    }

    #[test]
    fn names_do_not_leave_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).and_then(|()| fs::write(folder.path().join("a.graph"), "")).expect("written");
        let graphs = Graphs::new(Some(inner.clone()));
        let absolute = folder.path().join("a").display().to_string();
        let long = "x".repeat(5000);
        for name in ["../a", &absolute, "", ".", "..", "inner/../../a", "a\0", &long] {
            assert!(graphs.open(name).expect("no such file").is_none(), "{name}");
        }
        assert!(Graphs::default().open("a").expect("no folder").is_none());
    }
}
