//! The text of an elementwise kernel: the function, and accesses to its operands, within a template's schedule.

use std::fmt::Write as _;

use accelerd_ir::{
    Dtype,
    scalar::{
        Function,
        cuda::{self, ctype},
    },
};

use super::{
    super::prelude::{NO_FMA, PRELUDE},
    space::{LAUNCH, Space, View},
    variant::{Access, Schedule, Variant},
};
use crate::cuda::{COMMON, JitSource, Source, cu};

const HEADERS: &[Source] =
    &[COMMON, LAUNCH, PRELUDE, cu!("tensor/views.cuh"), cu!("tensor/map.cuh"), cu!("tensor/map_tile.cuh")];

/// The kernel of a function in a variant.
pub(super) fn source(function: &Function, variant: &Variant) -> JitSource {
    let operands = Operands { function, variant };
    let (template, header) = match variant.schedule {
        Schedule::Vectors { .. } => ("tensor_map", "tensor/map.cuh"),
        Schedule::Tiles { .. } => ("tensor_map_tile", "tensor/map_tile.cuh"),
    };
    let text = format!(
        "#include \"{header}\"\n#include \"ir/prelude.cuh\"\n\n{}\n{}\n{}",
        cuda::emit(function, "apply"),
        operands.structure(),
        operands.kernel(template)
    );
    let views = std::iter::repeat_n(size_of::<View>(), variant.accesses.len());
    let params = std::iter::once(size_of::<Space>()).chain(views).collect();
    JitSource { template, text, headers: HEADERS, options: vec![NO_FMA.to_owned()], params }
}

struct Operands<'a> {
    function: &'a Function,
    variant: &'a Variant,
}

impl Operands<'_> {
    /// Number, type and access of each input.
    fn inputs(&self) -> impl Iterator<Item = (usize, &'static str, Access)> {
        let dtypes = self.function.params().iter().map(|dtype| ctype(*dtype));
        dtypes.zip(&self.variant.accesses).enumerate().map(|(nth, (ctype, access))| (nth, ctype, *access))
    }

    fn outputs(&self) -> impl Iterator<Item = (usize, &'static str, Access)> {
        let dtype = |result| -> Dtype { self.function.dtype(result) };
        let dtypes = self.function.results().iter().map(move |result| ctype(dtype(*result)));
        let accesses = &self.variant.accesses[self.function.params().len()..];
        dtypes.zip(accesses).enumerate().map(|(nth, (ctype, access))| (nth, ctype, *access))
    }

    fn views(&self) -> Vec<String> {
        let inputs = self.inputs().map(|(nth, ..)| format!("input{nth}"));
        inputs.chain(self.outputs().map(|(nth, ..)| format!("output{nth}"))).collect()
    }

    /// The functions that the template calls, by the names that it knows.
    fn structure(&self) -> String {
        let values = lines(self.inputs().map(|(nth, ctype, _)| format!("        Lanes<{ctype}, LANES> p{nth};")));
        let views = lines(self.views().iter().map(|view| format!("    const View& {view};")));
        let accesses = match self.variant.schedule {
            Schedule::Vectors { .. } => self.load() + &self.store(),
            Schedule::Tiles { .. } => self.tile() + &self.stage() + &self.target(),
        };
        format!(
            "struct Operands {{\n{views}\n    template <int LANES>\n    struct Inputs {{\n{values}    }};\n\n{accesses}}};\n"
        )
    }

    fn load(&self) -> String {
        let loads = self.inputs().map(|(nth, _, access)| {
            let access = name(access);
            format!("        ::load<{access}>(input{nth}, position, to.p{nth});")
        });
        format!(
            "    template <int LANES, typename POSITION>\n    __device__ __forceinline__ void load(const POSITION& position, \
             Inputs<LANES>& to) const {{\n{}    }}\n\n",
            lines(loads)
        )
    }

    fn store(&self) -> String {
        let stores = self.outputs().map(|(nth, _, access)| {
            let access = name(access);
            format!("        ::store<{access}>(output{nth}, position, r{nth});")
        });
        format!(
            "    template <int LANES, typename POSITION>\n    __device__ __forceinline__ void store(const POSITION& position, \
             i64 index, const Inputs<LANES>& from) const {{\n{}{}    }}\n",
            self.apply(),
            lines(stores)
        )
    }

    /// The results `r0`, `r1`, ... of LANES elements.
    fn apply(&self) -> String {
        let values = lines(self.outputs().map(|(nth, ctype, _)| format!("        Lanes<{ctype}, LANES> r{nth};")));
        let arguments = self.inputs().map(|(nth, ..)| format!("from.p{nth}.v[i]"));
        let results = self.outputs().map(|(nth, ..)| format!("r{nth}.v[i]"));
        // The index of a vector is a multiple of its lanes, a power of two. That no carry leaves the low bits is what lets the compiler
        // compute `index / 4` once for all of them.
        let arguments: Vec<_> = arguments.chain(["index | i".to_owned()]).chain(results).collect();
        format!("{values}#pragma unroll\n        for (int i = 0; i < LANES; ++i) apply({});\n", arguments.join(", "))
    }

    fn staged(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.inputs().filter(|(.., access)| *access == Access::Staged).map(|(nth, ctype, _)| (nth, ctype))
    }

    fn tile(&self) -> String {
        let tiles = self.staged().map(|(nth, ctype)| format!("        TileRow<{ctype}, EDGE> p{nth}[EDGE];"));
        format!("    template <int EDGE>\n    struct Tile {{\n{}    }};\n\n", lines(tiles))
    }

    /// The staged inputs, along the columns of a tile.
    fn stage(&self) -> String {
        let values = self.staged().map(|(nth, ctype)| format!("        {ctype} p{nth};"));
        let addresses = self.staged().map(|(nth, ctype)| Cursor::new("input", nth, ctype, true));
        let cursor = cursor("Source", "source", "RANK - 1", self.variant.rank, &addresses.collect::<Vec<_>>());
        let fetches = self.staged().map(|(nth, _)| format!("        to.p{nth} = *from.input{nth};"));
        let stages = self.staged().map(|(nth, _)| format!("        tile.p{nth}[column].v[row] = from.p{nth};"));
        format!(
            "    struct Staged {{\n{}    }};\n\n{cursor}    __device__ __forceinline__ void fetch(const Source& from, Staged& to) \
             const {{\n{}    }}\n\n    template <typename TILE>\n    __device__ __forceinline__ void stage(const Staged& from, TILE& \
             tile, int column, int row) const {{\n{}    }}\n\n",
            lines(values),
            lines(fetches),
            lines(stages)
        )
    }

    /// The other inputs and the outputs, along the rows of a tile.
    fn target(&self) -> String {
        let others = self.inputs().filter(|(.., access)| *access != Access::Staged);
        let inputs = others.map(|(nth, ctype, _)| Cursor::new("input", nth, ctype, true));
        let outputs = self.outputs().map(|(nth, ctype, _)| Cursor::new("output", nth, ctype, false));
        let addresses: Vec<_> = inputs.chain(outputs).collect();
        let cursor = cursor("Target", "target", "RANK - 2", self.variant.rank, &addresses);
        let loads = self.inputs().map(|(nth, _, access)| match access {
            Access::Staged => format!("        to.p{nth}.v[0] = tile.p{nth}[column].v[row];"),
            Access::Contiguous | Access::Broadcast | Access::Strided => {
                format!("        to.p{nth}.v[0] = *from.input{nth};")
            }
        });
        let stores = self.outputs().map(|(nth, ..)| format!("        *to.output{nth} = r{nth}.v[0];"));
        format!(
            "{cursor}    template <typename TILE>\n    __device__ __forceinline__ void load(const Target& from, const TILE& tile, int \
             column, int row, Inputs<1>& to) const {{\n{}    }}\n\n    template <int LANES>\n    __device__ __forceinline__ void \
             store(const Target& to, i64 index, const Inputs<LANES>& from) const {{\n{}{}    }}\n",
            lines(loads),
            self.apply(),
            lines(stores)
        )
    }

    fn kernel(&self, template: &str) -> String {
        let rank = self.variant.rank;
        let call = match self.variant.schedule {
            Schedule::Vectors { lanes, unroll, is_wide } => {
                let index = if is_wide { "i64" } else { "int" };
                format!("map<{unroll}, {lanes}, {index}, {rank}>")
            }
            Schedule::Tiles { edge } => format!("map_tile<{edge}, {rank}>"),
        };
        let threads = self.variant.schedule.threads();
        let views = self.views();
        let params: Vec<_> = views.iter().map(|view| format!("const View {view}")).collect();
        format!(
            "extern \"C\" __global__ void __launch_bounds__({threads}) {template}(const Space space, {}) {{\n    \
             {call}(space, Operands{{{}}});\n}}\n",
            params.join(", "),
            views.join(", ")
        )
    }
}

/// The address of an element of a view.
struct Cursor {
    view: String,
    pointer: String,
}

impl Cursor {
    fn new(kind: &str, nth: usize, ctype: &str, is_read: bool) -> Self {
        Self { view: format!("{kind}{nth}"), pointer: format!("{}{ctype}*", if is_read { "const " } else { "" }) }
    }
}

/// A structure of addresses, and the function that makes it for a position. They advance by WARPS strides of a dimension.
fn cursor(structure: &str, function: &str, dim: &str, rank: usize, addresses: &[Cursor]) -> String {
    let members = |line: fn(&Cursor, &str) -> String| lines(addresses.iter().map(|address| line(address, dim)));
    let fields =
        members(|member, _| format!("        {} {};\n        i64 {}_step;", member.pointer, member.view, member.view));
    let steps = members(|member, _| format!("            {} += {}_step;", member.view, member.view));
    let values = members(|member, dim| {
        format!(
            "            ({}){view}.address + offset<STRIDED, 1>({view}.strides, position), WARPS * {view}.strides[{dim}],",
            member.pointer,
            view = member.view
        )
    });
    format!(
        "    struct {structure} {{\n{fields}        __device__ __forceinline__ void advance() {{\n{steps}        }}\n    }};\n\n    \
         __device__ __forceinline__ {structure} {function}(const Position<i64, {rank}>& position) const {{\n        constexpr int RANK = \
         {rank};\n        return {{\n{values}        }};\n    }}\n\n"
    )
}

/// In `views.cuh`.
fn name(access: Access) -> &'static str {
    match access {
        Access::Contiguous => "CONTIGUOUS",
        Access::Broadcast => "BROADCAST",
        Access::Strided | Access::Staged => "STRIDED",
    }
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").expect("a string grows");
        text
    })
}
