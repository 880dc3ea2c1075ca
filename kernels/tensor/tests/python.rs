//! Modules of the Python client that are written from the tables of operations. `ACCELERD_REWRITE_GOLDEN=1` writes them.

use std::{fs, path::Path};

use accelerd_tensor::{Accepts, Condition, DtypeRule, ShapeRule, Signature, Slot, signatures};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../client/python/src/accelerd");
const OPENING: &str = "# Written by kernels/tensor/tests/python.rs from the tables of operations; do not edit.\n";
/// The widest line of the Python sources.
const WIDTH: usize = 120;

/// The names that the Array API standard has for operations with others.
const STANDARD_NAMES: &[(&str, &str)] = &[
    ("amax", "max"),
    ("amin", "min"),
    ("bitwise_not", "bitwise_invert"),
    ("div", "divide"),
    ("eq", "equal"),
    ("ge", "greater_equal"),
    ("gt", "greater"),
    ("le", "less_equal"),
    ("lt", "less"),
    ("mul", "multiply"),
    ("ne", "not_equal"),
    ("neg", "negative"),
    ("sub", "subtract"),
];

/// Operations whose functions of the standard do more than to apply them.
const WRITTEN_BY_HAND: &[&str] = &["prod", "std", "sum", "to", "var"];

#[test]
fn the_python_client_has_the_tables_of_operations() {
    let modules = [("_operations.py", operations()), ("_array_api/_functions.py", functions())];
    for (name, fresh) in modules {
        let path = Path::new(FOLDER).join(name);
        if std::env::var_os("ACCELERD_REWRITE_GOLDEN").is_some() {
            fs::write(&path, &fresh).expect("a writable file");
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == fresh, "{name} is out of date: ACCELERD_REWRITE_GOLDEN=1 cargo test -p accelerd-tensor");
    }
}

#[test]
fn names_are_unique_and_exceptions_are_operations() {
    let signatures = signatures();
    let primary = |name: &str| signatures.iter().any(|one| one.name == name && one.alias_of.is_none());
    for pair in signatures.windows(2) {
        assert!(pair[0].name < pair[1].name, "{}", pair[1].name);
    }
    for name in STANDARD_NAMES.iter().map(|(name, _)| name).chain(WRITTEN_BY_HAND) {
        assert!(primary(name), "{name}");
    }
}

/// The table of operations.
fn operations() -> String {
    let signatures = signatures();
    let several = signatures.iter().filter(|one| one.results.count > 1).map(|one| format!("{:?}", one.name));
    let several = wrapped("", "SeveralResults: TypeAlias = Literal[", &several.collect::<Vec<_>>(), "]");
    let entries: Vec<_> = signatures.iter().map(entry).collect();
    format!(
        "{OPENING}\"\"\"Operations of tensors, and the rules of their results' types.\"\"\"\n\nfrom __future__ import \
         annotations\n\nfrom typing import Literal, TypeAlias\n\nfrom ._operation import Operation\n\n#: Operations that \
         always have several results.\n{several}\n#: Operations by name.\nOPERATIONS: dict[str, Operation] = \
         {{\n{}}}\n",
        entries.concat()
    )
}

/// An operation in the table.
fn entry(signature: &Signature) -> String {
    let Signature { name, operands, accepts, results, .. } = signature;
    let rules = results
        .types
        .iter()
        .flatten()
        .map(|(shape, dtype)| format!("({:?}, {:?})", shape_rule(*shape), dtype_rule(*dtype)));
    let mut arguments = vec![];
    arguments.extend(tuple(&rules.collect::<Vec<_>>()));
    if !operands.is_empty() {
        arguments.push(format!("operands={}", operands.len()));
    }
    let scalars = operands.iter().filter_map(|slot| match slot {
        Slot::Either(name) | Slot::Optional(name) => Some(format!("{name:?}")),
        Slot::Tensor | Slot::Condition => None,
    });
    arguments.extend(tuple(&scalars.collect::<Vec<_>>()).map(|scalars| format!("scalars={scalars}")));
    let condition = operands.iter().position(|slot| *slot == Slot::Condition);
    arguments.extend(condition.map(|nth| format!("condition={nth}")));
    arguments.extend(accepted(*accepts).map(|kinds| format!("accepts={kinds:?}")));
    if results.count > 1 {
        arguments.push(format!("count={}", results.count));
    }
    if !results.conditions.is_empty() {
        arguments.push(format!("most={}", results.most));
    }
    let conditions: Vec<_> = results.conditions.iter().map(condition_pair).collect();
    arguments.extend(tuple(&conditions).map(|conditions| format!("conditions={conditions}")));
    wrapped("    ", &format!("{name:?}: Operation("), &arguments, "),")
}

/// An attribute and its default; None if the condition is that it is set.
fn condition_pair(condition: &Condition) -> String {
    match condition {
        Condition::Set(name) => format!("({name:?}, None)"),
        Condition::True(name) => format!("({name:?}, False)"),
        Condition::NotFalse(name) => format!("({name:?}, True)"),
    }
}

/// A tuple in Python; `None` if it is empty.
fn tuple(items: &[String]) -> Option<String> {
    match items {
        [] => None,
        [one] => Some(format!("({one},)")),
        items => Some(format!("({})", items.join(", "))),
    }
}

/// A list in one line if it fits, else its items in a line of their own, else each in one.
fn wrapped(indent: &str, start: &str, items: &[String], end: &str) -> String {
    let all = items.join(", ");
    let line = format!("{indent}{start}{all}{end}\n");
    if line.len() <= WIDTH + 1 {
        return line;
    }
    let inner = format!("{indent}    {all}\n");
    if inner.len() <= WIDTH + 1 {
        return format!("{indent}{start}\n{inner}{indent}{end}\n");
    }
    let lines: Vec<_> = items.iter().map(|item| format!("{indent}    {item},\n")).collect();
    format!("{indent}{start}\n{}{indent}{end}\n", lines.concat())
}

fn accepted(accepts: Accepts) -> Option<&'static str> {
    match accepts {
        Accepts::Any => None,
        Accepts::Numbers => Some("numbers"),
        Accepts::Bits => Some("bits"),
        Accepts::Integers => Some("integers"),
    }
}

/// The names of rules in `_inference.py`.
fn shape_rule(rule: ShapeRule) -> &'static str {
    match rule {
        ShapeRule::Broadcast => "broadcast",
        ShapeRule::First => "first",
        ShapeRule::Second => "second",
        ShapeRule::Third => "third",
        ShapeRule::Reduced => "reduced",
        ShapeRule::Given => "given",
        ShapeRule::Concat => "concat",
        ShapeRule::Reshape => "reshape",
        ShapeRule::Flatten => "flatten",
        ShapeRule::Squeeze => "squeeze",
        ShapeRule::Unsqueeze => "unsqueeze",
        ShapeRule::Permute => "permute",
        ShapeRule::Transpose => "transpose",
        ShapeRule::Expand => "expand",
        ShapeRule::Slice => "slice",
        ShapeRule::Select => "select",
        ShapeRule::TopK => "topk",
        ShapeRule::MatMul => "matmul",
        ShapeRule::Linear => "linear",
        ShapeRule::Range => "range",
        ShapeRule::Steps => "steps",
        ShapeRule::IndexSelect => "index_select",
        ShapeRule::TakeAlongDim => "take_along_dim",
        ShapeRule::Embedding => "embedding",
        ShapeRule::OneHot => "one_hot",
    }
}

fn dtype_rule(rule: DtypeRule) -> String {
    let name = match rule {
        DtypeRule::Is(dtype) => dtype.name(),
        DtypeRule::GivenOr(dtype) => return format!("given_or_{dtype}"),
        DtypeRule::Common => "common",
        DtypeRule::Float => "float",
        DtypeRule::Quotient => "quotient",
        DtypeRule::Comparison => "comparison",
        DtypeRule::First => "first",
        DtypeRule::Second => "second",
        DtypeRule::Third => "third",
        DtypeRule::Given => "given",
        DtypeRule::OfValue => "of_value",
        DtypeRule::OfRange => "of_range",
        DtypeRule::Sum => "sum",
        DtypeRule::Mean => "mean",
        DtypeRule::Spread => "spread",
        DtypeRule::FloatSpread => "float_spread",
        DtypeRule::Promoted => "promoted",
        DtypeRule::Equal => "equal",
    };
    name.to_owned()
}

/// The functions of the namespace that are one operation each.
fn functions() -> String {
    let mut lines: Vec<_> = signatures().iter().filter_map(function).collect();
    lines.sort();
    format!(
        "{OPENING}\"\"\"Functions that are one operation each.\"\"\"\n\nfrom __future__ import annotations\n\nfrom .._lazy \
         import T\nfrom ._dtypes import Dtypes\nfrom ._namespace import Binary, Reduction, Unary\n\n\nclass \
         Functions(Dtypes[T]):\n    \"\"\"Functions of each element of one or two operands, which broadcast, and \
         reductions.\"\"\"\n\n    __slots__ = ()\n\n{}",
        lines.concat()
    )
}

/// The function of an operation, if it has one: `    divide = Binary("div")`.
fn function(signature: &Signature) -> Option<String> {
    let Signature { name, operands, results, alias_of, .. } = signature;
    if alias_of.is_some() || results.count > 1 || WRITTEN_BY_HAND.contains(name) {
        return None;
    }
    let kind = match operands {
        [Slot::Tensor] => "Unary",
        [Slot::Either("input"), Slot::Either("other")] => "Binary",
        [] if matches!(results.types[0], Some((ShapeRule::Reduced, _))) => "Reduction",
        _ => return None,
    };
    let standard = STANDARD_NAMES.iter().find(|(operation, _)| operation == name);
    let function = standard.map_or(*name, |(_, function)| *function);
    Some(format!("    {function} = {kind}({name:?})\n"))
}
