//! The source of the values of rows: elements of the inputs, and a function of them. `Source` of `tensor/row.cuh`.

use accelerd_ir::{
    Dtype,
    scalar::{
        Function,
        cuda::{ctype, emit},
    },
};
use accelerd_tensor::{RowAccess, View};

use super::{
    buffers::{Address, BufferSizes},
    launches::Argument,
    map::weight,
};
use crate::OpError;

/// Bound of the instructions of a thread's values, beyond which they are computed by calls of one function: the compiler takes too long.
const MAX_UNROLLED: usize = 2048;

/// An operand whose rows are read or written by vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowOperand {
    pub(super) address: Address,
    pub(super) dtype: Dtype,
}

/// The inputs of rows and the function of their elements.
pub(super) struct RowSource<'a> {
    inputs: Vec<RowInput>,
    prologue: &'a Function,
}

struct RowInput {
    access: RowAccess,
    dtype: Dtype,
    address: Address,
}

impl<'a> RowSource<'a> {
    /// The source of rows of type `dtype`. `name` is the step's in errors.
    pub(super) fn new(
        name: &str,
        inputs: &[View],
        prologue: &'a Function,
        dtype: Dtype,
        sizes: &BufferSizes,
    ) -> Result<Self, OpError> {
        let invalid = |expected: &str| OpError::Invalid(format!("{name}: expected {expected}"));
        let params: Vec<_> = inputs.iter().map(|view| view.dtype).collect();
        let results: Vec<_> = prologue.results().iter().map(|result| prologue.dtype(*result)).collect();
        if params != prologue.params() || results != [dtype] || prologue.uses_index() {
            return Err(invalid(&format!("a prologue from the inputs' types to {dtype} that does not use the index")));
        }
        if !(1..=RowAccess::MAX_INPUTS).contains(&inputs.len()) {
            return Err(invalid(&format!("1 to {} inputs", RowAccess::MAX_INPUTS)));
        }
        let input = |view: &View| {
            let access =
                RowAccess::of(&view.layout).ok_or_else(|| invalid("contiguous rows, a shared row or a value"))?;
            Ok(RowInput { access, dtype: view.dtype, address: sizes.address(view)? })
        };
        Ok(Self { inputs: inputs.iter().map(input).collect::<Result<_, OpError>>()?, prologue })
    }

    /// The inputs that are read by vectors.
    pub(super) fn operands(&self) -> impl Iterator<Item = RowOperand> {
        let vectors = self.inputs.iter().filter(|input| input.access != RowAccess::Value);
        vectors.map(|input| RowOperand { address: input.address, dtype: input.dtype })
    }

    /// The parameters of a kernel in CUDA C++, with their arguments.
    pub(super) fn params(&self) -> impl Iterator<Item = (String, Argument)> {
        let param = |(nth, input): (usize, &RowInput)| {
            (format!("const {}* input{nth}", ctype(input.dtype)), Argument::Address(input.address))
        };
        self.inputs.iter().enumerate().map(param)
    }

    /// The source of all rows, made of these parameters.
    pub(super) fn initializer(&self) -> String {
        self.list(|nth, input| match input.access {
            RowAccess::Rows | RowAccess::SharedRow => format!("input{nth}"),
            RowAccess::Value => format!("*input{nth}"),
        })
    }

    /// `row_value` and `Source`, for threads with `values` values in flight. Types of elements, `widen` and `VEC` are defined before.
    pub(super) fn text(&self, values: usize) -> String {
        format!("#include \"tensor/pack.cuh\"\n\n{}\n{}", self.row_value(values), self.structure())
    }

    /// The value of an element of a row from elements of the inputs.
    fn row_value(&self, values: usize) -> String {
        let params = self.list(|nth, input| format!("{} x{nth}", ctype(input.dtype)));
        if self.prologue.is_copy() && self.inputs.len() == 1 {
            return format!("__device__ __forceinline__ Compute row_value({params}) {{ return widen(x0); }}\n");
        }
        let is_inlined = weight(self.prologue).saturating_mul(values) <= MAX_UNROLLED;
        let inlining = if is_inlined { "__forceinline__" } else { "__noinline__" };
        let arguments = self.list(|nth, _| format!("x{nth}"));
        format!(
            "{}__device__ {inlining} Compute row_value({params}) {{\n    Element value;\n    prologue({arguments}, 0, value);\n    \
             return widen(value);\n}}\n",
            emit(self.prologue, "prologue")
        )
    }

    fn structure(&self) -> String {
        let fields = self.lines(|nth, input| {
            let ctype = ctype(input.dtype);
            match input.access {
                RowAccess::Rows | RowAccess::SharedRow => format!("    const {ctype}* input{nth};\n"),
                RowAccess::Value => format!("    {ctype} input{nth};\n"),
            }
        });
        let row = self.list(|nth, input| match input.access {
            RowAccess::Rows => format!("input{nth} + first"),
            RowAccess::SharedRow | RowAccess::Value => format!("input{nth}"),
        });
        let loads = self.lines(|nth, input| match input.access {
            RowAccess::Rows | RowAccess::SharedRow => {
                format!("        const auto x{nth} = Pack<{}, VEC>::load(input{nth} + column);\n", ctype(input.dtype))
            }
            RowAccess::Value => String::new(),
        });
        let elements = self.list(|nth, input| match input.access {
            RowAccess::Rows | RowAccess::SharedRow => format!("x{nth}.at[e]"),
            RowAccess::Value => format!("input{nth}"),
        });
        format!(
            "struct Source {{\n{fields}\n    __device__ __forceinline__ Source row(u64 first) const {{ return {{{row}}}; }}\n\n    \
             __device__ __forceinline__ void load(u64 column, Compute* values) const {{\n{loads}#pragma unroll\n        for (int e = 0; \
             e < VEC; e++) values[e] = row_value({elements});\n    }}\n}};\n"
        )
    }

    fn lines(&self, line: impl Fn(usize, &RowInput) -> String) -> String {
        self.inputs.iter().enumerate().map(|(nth, input)| line(nth, input)).collect()
    }

    fn list(&self, item: impl Fn(usize, &RowInput) -> String) -> String {
        let items: Vec<_> = self.inputs.iter().enumerate().map(|(nth, input)| item(nth, input)).collect();
        items.join(", ")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use accelerd_ir::scalar::{BinaryOp, Builder, UnaryOp, ValueId};
    use accelerd_tensor::{Layout, Location};

    use super::*;

    /// Inputs and prologues of rows of a type: a cast; a function of rows of mixed types, a shared row and a value; a long function.
    pub(in super::super) fn prologues(dtype: Dtype, shape: [usize; 2]) -> Vec<(Vec<View>, Function)> {
        let view = |nth, dtype, shared: &[usize]| {
            let layout = Layout::contiguous(shared).broadcast(&shape).expect("rows repeat");
            View { location: Location::Input(nth), dtype, layout }
        };
        let from = if dtype == Dtype::F32 { Dtype::Bf16 } else { Dtype::F32 };
        let mixed =
            [view(0, dtype, &shape), view(1, from, &shape), view(2, Dtype::Bool, &shape[1..]), view(3, dtype, &[])];
        let rows = vec![view(0, dtype, &shape)];
        vec![
            (vec![view(0, from, &shape)], Function::conversion(from, dtype)),
            (mixed.to_vec(), sum(&mixed, dtype, 0)),
            (rows.clone(), sum(&rows, dtype, 40)),
        ]
    }

    /// The sum of elements, then as many times its hyperbolic tangent plus itself.
    fn sum(inputs: &[View], dtype: Dtype, times: usize) -> Function {
        let mut builder = Builder::new(&inputs.iter().map(|view| view.dtype).collect::<Vec<_>>());
        let add = |builder: &mut Builder, a: ValueId, b: ValueId| {
            builder.binary(BinaryOp::Add, a, b).expect("numbers of one type")
        };
        let mut result = builder.number(dtype.compute(), 0.5);
        for nth in 0..inputs.len() {
            let element = builder.param(nth);
            let element = builder.cast(element, dtype.compute());
            result = add(&mut builder, result, element);
        }
        for _ in 0..times {
            let tanh = builder.unary(UnaryOp::Tanh, result).expect("a number");
            result = add(&mut builder, tanh, result);
        }
        let result = builder.cast(result, dtype);
        builder.finish(&[result])
    }

    fn source(inputs: &[View], prologue: &Function, dtype: Dtype) -> Result<String, OpError> {
        let sizes = BufferSizes::new(&[1 << 39; 4], &[1 << 39], 0);
        RowSource::new("a test", inputs, prologue, dtype, &sizes).map(|source| source.text(32))
    }

    #[test]
    fn elements_as_they_are_need_no_function() {
        let rows = View { location: Location::Input(0), dtype: Dtype::F16, layout: Layout::contiguous(&[4, 8]) };
        let text = source(&[rows], &Function::conversion(Dtype::F16, Dtype::F16), Dtype::F16).expect("rows");
        assert!(!text.contains("prologue") && text.contains("return widen(x0);"), "{text}");
    }

    #[test]
    fn inputs_are_read_where_they_are() {
        let [_, (inputs, prologue), _] = &prologues(Dtype::F32, [4, 8])[..] else { panic!("three") };
        let text = source(inputs, prologue, Dtype::F32).expect("rows");
        assert!(text.contains("return {input0 + first, input1 + first, input2, input3};"), "{text}");
        assert!(text.contains("row_value(x0.at[e], x1.at[e], x2.at[e], input3)"), "{text}");
    }

    #[test]
    fn long_functions_are_called() {
        let [_, short, long] = &prologues(Dtype::F32, [4, 8])[..] else { panic!("three") };
        let [short, long] = [short, long].map(|(inputs, function)| source(inputs, function, Dtype::F32).expect("rows"));
        assert!(!short.contains("__noinline__") && long.contains("__noinline__ Compute row_value"));
    }

    #[test]
    fn other_layouts_and_functions_of_the_index_are_refused() {
        let rows = View { location: Location::Input(0), dtype: Dtype::F32, layout: Layout::contiguous(&[4, 8]) };
        let mut builder = Builder::new(&[Dtype::F32]);
        let index = builder.index();
        let result = builder.cast(index, Dtype::F32);
        let of_index = builder.finish(&[result]);
        let copy = Function::conversion(Dtype::F32, Dtype::F32);
        assert!(source(std::slice::from_ref(&rows), &of_index, Dtype::F32).is_err());
        let columns = View { layout: Layout::contiguous(&[8, 4]).permuted(&[1, 0]), ..rows.clone() };
        assert!(source(&[columns], &copy, Dtype::F32).is_err());
        let five = vec![rows; 5];
        assert!(source(&five, &sum(&five, Dtype::F32, 0), Dtype::F32).is_err());
    }
}
