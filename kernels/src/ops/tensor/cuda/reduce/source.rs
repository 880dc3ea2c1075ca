//! The text of a reduction's kernels: prologue and epilogue within the schedules of `tensor/reduce.cuh`.

use accelerd_ir::{
    Dtype,
    scalar::{
        Function,
        cuda::{ctype, emit},
    },
};

use super::{
    super::{headers::HEADERS, prelude::NO_FMA},
    space::Space,
    state::State,
    variant::{Orientation, THREADS, Variant},
};
use crate::cuda::JitSource;

/// Functions that are computed before and after, and the types between them.
pub(super) struct Functions<'a> {
    pub(super) prologue: &'a Function,
    pub(super) state: State,
    pub(super) value: Dtype,
    pub(super) epilogue: &'a Function,
    pub(super) output: Dtype,
}

impl Functions<'_> {
    /// The kernel that reads the inputs. It writes states if there are several parts.
    pub(super) fn reduce(&self, space: &Space, variant: &Variant, words: usize) -> JitSource {
        let inputs = self.prologue.params().len();
        let Variant { vec, unroll, lanes, .. } = variant;
        let constants = format!(
            "{}constexpr int INPUTS = {inputs}, INNER_RANK = {}, VEC = {vec}, UNROLL = {unroll};\nconstexpr bool IS_PARTIAL = \
             {};\n",
            self.constants(space, *lanes, variant.is_wide),
            space.inner.len(),
            variant.parts > 1
        );
        let (template, function) = match variant.orientation {
            Orientation::Rows => ("tensor_reduce_rows", "reduce_rows"),
            Orientation::Columns => ("tensor_reduce_columns", "reduce_columns"),
        };
        let load = self.load_values(space, variant);
        let text =
            format!("{constants}\n{}\n{load}\n#include \"tensor/reduce.cuh\"\n", emit(self.prologue, "prologue"));
        kernel(template, function, &text, words)
    }

    /// The kernel that merges states.
    pub(super) fn reduce_states(&self, space: &Space, lanes: usize, is_wide: bool, words: usize) -> JitSource {
        let text = format!("{}\n#include \"tensor/reduce_states.cuh\"\n", self.constants(space, lanes, is_wide));
        kernel("tensor_reduce_states", "reduce_states", &text, words)
    }

    /// Constants of both kernels.
    fn constants(&self, space: &Space, lanes: usize, is_wide: bool) -> String {
        let index = if is_wide { "u64" } else { "u32" };
        format!(
            "#include \"ir/prelude.cuh\"\n#include \"tensor/states.cuh\"\n#include \"tensor/pack.cuh\"\n\ntypedef {index} \
             Index;\ntypedef {} Value;\ntypedef {} State;\ntypedef {} Output;\nconstexpr int THREADS = {THREADS}, LANES = \
             {lanes}, OUTER_RANK = {};\n{}",
            ctype(self.value),
            self.state.ctype(),
            ctype(self.output),
            space.outer.len(),
            emit(self.epilogue, "epilogue")
        )
    }

    /// The values of adjacent elements, from vectors of the inputs.
    fn load_values(&self, space: &Space, variant: &Variant) -> String {
        let last = match variant.orientation {
            Orientation::Rows => space.inner.last(),
            Orientation::Columns => space.outer.last(),
        };
        let is_broadcast = |nth: usize| variant.vec > 1 && last.is_some_and(|dim| dim.strides[nth] == 0);
        let load = |(nth, dtype): (usize, &Dtype)| {
            let ctype = ctype(*dtype);
            let base = format!("(const {ctype}*)bases[{nth}]");
            if is_broadcast(nth) {
                format!("    const auto x{nth} = broadcast_pack<{ctype}, N>(({base})[offsets[{nth}]]);\n")
            } else {
                format!("    const auto x{nth} = Pack<{ctype}, N>::load({base} + offsets[{nth}]);\n")
            }
        };
        let loads: Vec<_> = self.prologue.params().iter().enumerate().map(load).collect();
        let loads = loads.concat();
        let arguments: Vec<_> = (0..self.prologue.params().len()).map(|nth| format!("x{nth}.at[e], ")).collect();
        let arguments = arguments.concat();
        format!(
            "template <int N>\n__device__ __forceinline__ void load_values(const u64* bases, const i64* offsets, i64 index, i64 \
             step, Value* values) {{\n{loads}#pragma unroll\n    for (int e = 0; e < N; e++) prologue({arguments}index + e * \
             step, values[e]);\n}}\n"
        )
    }
}

/// A kernel with `words` arguments of 8 bytes. Products and sums are rounded separately, as the interpreter of scalar functions does.
fn kernel(template: &'static str, function: &str, text: &str, words: usize) -> JitSource {
    let params: Vec<_> = (0..words).map(|nth| format!("const u64 w{nth}")).collect();
    let names: Vec<_> = (0..words).map(|nth| format!("w{nth}")).collect();
    let text = format!(
        "{text}\nextern \"C\" __global__ void __launch_bounds__({THREADS}) {template}({}) {{\n    const u64 words[] = \
         {{{}}};\n    {function}(words);\n}}\n",
        params.join(", "),
        names.join(", ")
    );
    JitSource { template, text, headers: HEADERS, options: vec![NO_FMA.to_owned()], params: vec![8; words] }
}
