//! Elements by index: neighbours that have one index are copied together, in words of up to 16 bytes.

use accelerd_ir::{Dtype, scalar::cuda::ctype};
use accelerd_tensor::IndexStep;

use super::{
    buffers::{Address, BufferSizes},
    headers::INDEX_UNROLL,
    launches::{Argument, Launches},
    map::collapse::Collapsed,
    status::report_of,
    words::{THREADS, launch, signed, word},
};
use crate::OpError;

/// Bytes of the widest access to memory.
const MAX_WORD_BYTES: usize = 16;

/// The launches of a step; none if there is no result.
pub(super) fn prepare(step: &IndexStep, sizes: &BufferSizes) -> Result<Launches, OpError> {
    let (extent, stride) = check(step)?;
    let input = sizes.address(&step.input)?;
    let index = sizes.address(&step.index)?;
    let output = sizes.address_mut(&step.output)?;
    let shape = &step.output.layout.shape;
    if shape.contains(&0) {
        return Ok(Launches::default());
    }
    let strides = [&step.input.layout.strides[..shape.len()], &step.index.layout.strides, &step.output.layout.strides];
    let mut copy = Copy { space: Collapsed::new(shape, &strides), stride };
    let elements = copy.word_elements(step.output.dtype.size(), [input, output]);
    copy.join(elements);
    let count = copy.space.elements();
    let mut arguments = vec![word(count), word(extent), signed(copy.stride), word(report_of(step))];
    arguments.extend([input, index, output, Address::Status].map(Argument::Address));
    arguments.extend(copy.space.extents.iter().map(|extent| word(*extent)));
    arguments.extend(copy.space.strides.iter().flatten().map(|stride| signed(*stride)));
    let text = source(step, copy.space.rank(), elements * step.output.dtype.size(), count);
    let grid = [count.div_ceil(THREADS * INDEX_UNROLL), 1];
    Ok(Launches::one(launch("tensor_index", "copy_by_index", &text, grid, arguments)?))
}

fn source(step: &IndexStep, rank: usize, word_bytes: usize, count: usize) -> String {
    let word = match word_bytes {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned int",
        8 => "uint2",
        _ => "uint4",
    };
    let index = if count > i32::MAX as usize { "u64" } else { "u32" };
    format!(
        "#include \"common/common.cuh\"\n\ntypedef {word} Word;\ntypedef {} Subscript;\ntypedef {index} Index;\nconstexpr int \
         RANK = {rank};\nconstexpr bool WRAPS = {};\n#include \"tensor/index.cuh\"\n",
        ctype(step.index.dtype),
        step.op.wraps()
    )
}

/// The space of the results, with strides of input, index and output, and the stride of the dimension that is indexed.
struct Copy {
    space: Collapsed,
    stride: isize,
}

impl Copy {
    /// The most neighbours that have one index, and can be copied at once wherever a row begins.
    fn word_elements(&self, size: usize, addresses: [Address; 2]) -> usize {
        let last = self.space.rank() - 1;
        let [input, index, output] = [0, 1, 2].map(|operand| &self.space.strides[operand]);
        if input[last] != 1 || index[last] != 0 || output[last] != 1 {
            return 1;
        }
        let fits = |elements: &usize| {
            let mut outer = input[..last].iter().chain(&output[..last]).chain([&self.stride]);
            self.space.extents[last].is_multiple_of(*elements)
                && outer.all(|stride| stride.unsigned_abs().is_multiple_of(*elements))
                && addresses.iter().all(|address| address.is_aligned(elements * size))
        };
        [16, 8, 4, 2].into_iter().filter(|elements| elements * size <= MAX_WORD_BYTES).find(fits).unwrap_or(1)
    }

    /// Makes words of this many elements.
    fn join(&mut self, elements: usize) {
        let last = self.space.rank() - 1;
        let by = elements.cast_signed();
        self.space.extents[last] /= elements;
        for operand in [0, 2] {
            self.space.strides[operand][..last].iter_mut().for_each(|stride| *stride /= by);
        }
        self.stride /= by;
    }
}

/// Extent and stride of the dimension that is indexed.
fn check(step: &IndexStep) -> Result<(usize, isize), OpError> {
    let invalid = |expected: &str| Err(OpError::Invalid(format!("{}: expected {expected}", step.op.name())));
    let shape = &step.output.layout.shape;
    let layout = &step.input.layout;
    let Some((&extent, rows)) = layout.shape.split_last() else { return invalid("a dimension to index") };
    if rows != shape || step.index.layout.shape != *shape {
        return invalid(&format!("an input and indices for results of shape {shape:?}"));
    }
    if [&step.input, &step.index, &step.output].iter().any(|view| view.layout.strides.len() != view.layout.shape.len())
    {
        return invalid("strides of all dimensions");
    }
    if step.input.dtype != step.output.dtype || !matches!(step.index.dtype, Dtype::I32 | Dtype::I64) {
        return invalid("results of the input's type, and indices of type i32 or i64");
    }
    Ok((extent, layout.strides[shape.len()]))
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::{IndexOp, Layout, Location, View};

    use super::{
        super::{compile::compiles, launches::Launch},
        *,
    };

    /// Rows of a matrix of `shape`, by `count` indices.
    fn rows(dtype: Dtype, shape: [usize; 2], count: usize, op: IndexOp) -> IndexStep {
        let [rows, columns] = shape;
        let view = |location, dtype, layout| View { location, dtype, layout };
        let stride = columns.cast_signed();
        let input = Layout { shape: vec![count, columns, rows], strides: vec![0, 1, stride], offset: 0 };
        let index = Layout { shape: vec![count, columns], strides: vec![1, 0], offset: 0 };
        IndexStep {
            op,
            node: 6,
            input: view(Location::Input(0), dtype, input),
            index: view(Location::Input(1), Dtype::I64, index),
            output: view(Location::Output(0), dtype, Layout::contiguous(&[count, columns])),
        }
    }

    fn prepared(step: &IndexStep) -> Launch {
        let sizes = BufferSizes::new(&[1 << 42, 1 << 42], &[1 << 42], 0);
        prepare(step, &sizes).unwrap_or_else(|error| panic!("{error}")).launches.remove(0)
    }

    fn words(launch: &Launch) -> Vec<u64> {
        let word = |argument: &Argument| if let Argument::Word(word) = argument { Some(*word) } else { None };
        launch.arguments.iter().filter_map(word).collect()
    }

    #[test]
    fn rows_are_copied_in_the_widest_words_that_divide_them() {
        // Words of the output, rows, words of a row, the report; then extents and strides of output, index and input.
        let launch = prepared(&rows(Dtype::F32, [50, 768], 10, IndexOp::Embedding));
        assert!(launch.source.text.contains("typedef uint4 Word;"));
        assert_eq!(words(&launch), [1920, 50, 192, 7, 10, 192, 0, 1, 1, 0, 192, 1]);
        assert_eq!(launch.grid.x, 2);
        for (dtype, columns, word) in [
            (Dtype::F16, 6, "unsigned int"),
            (Dtype::U8, 24, "uint2"),
            (Dtype::F64, 3, "uint2"),
            (Dtype::I8, 7, "unsigned char"),
        ] {
            let launch = prepared(&rows(dtype, [50, columns], 10, IndexOp::IndexSelect));
            assert!(launch.source.text.contains(&format!("typedef {word} Word;")), "{dtype} {columns}");
        }
    }

    #[test]
    fn elements_with_an_index_each_are_copied_one_by_one() {
        let mut step = rows(Dtype::F32, [50, 768], 10, IndexOp::Gather);
        step.index.layout = Layout::contiguous(&[10, 768]);
        assert!(prepared(&step).source.text.contains("typedef unsigned int Word;"));
        let mut shifted = rows(Dtype::F32, [50, 768], 10, IndexOp::Gather);
        shifted.input.layout.offset = 1;
        assert!(prepared(&shifted).source.text.contains("typedef unsigned int Word;"), "not aligned");
    }

    #[test]
    fn a_step_whose_views_do_not_fit_is_refused() {
        let sizes = BufferSizes::new(&[1 << 39, 1 << 39], &[1 << 39], 0);
        let good = rows(Dtype::F32, [5, 8], 4, IndexOp::Gather);
        let refused = |step: IndexStep| matches!(prepare(&step, &sizes), Err(OpError::Invalid(_)));
        assert!(!refused(good.clone()));
        assert!(refused(IndexStep { index: View { dtype: Dtype::U8, ..good.index.clone() }, ..good.clone() }));
        assert!(refused(IndexStep { output: View { dtype: Dtype::F64, ..good.output.clone() }, ..good.clone() }));
        assert!(refused(IndexStep { input: good.output.clone(), ..good.clone() }));
        let beyond = BufferSizes::new(&[5 * 8 * 4 - 1, 1 << 39], &[1 << 39], 0);
        assert!(prepare(&good, &beyond).is_err(), "a valid index must stay within the input");
        assert!(
            prepare(&rows(Dtype::F32, [5, 8], 0, IndexOp::Gather), &sizes).is_ok_and(|none| none.launches.is_empty())
        );
    }

    #[test]
    fn every_word_and_operation_compiles() {
        let mut sources = vec![];
        for (nth, op) in IndexOp::ALL.into_iter().enumerate() {
            for (index, columns) in [1, 2, 4, 8, 16].into_iter().enumerate().filter(|(index, _)| *index != nth) {
                let mut step = rows(Dtype::U8, [50, columns], 10, op);
                step.index.dtype = if index % 2 == 0 { Dtype::I32 } else { Dtype::I64 };
                sources.push(prepared(&step).source);
            }
        }
        let huge = rows(Dtype::U8, [50, 1 << 20], 1 << 20, IndexOp::Embedding);
        sources.push(prepared(&huge).source);
        compiles(&sources);
    }
}
