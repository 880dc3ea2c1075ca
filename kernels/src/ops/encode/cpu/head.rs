//! The classification head of a cross-encoder: the pooled hidden state of a pair to its score.
//!
//! It runs on the CPU in f32, wherever the encoder ran: a head has two small products per pair, a layer of the encoder a
//! dozen of that size per token. The bits of a score depend on its own row alone.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use accelerd_ir::scalar::loops::{Tanh, UnaryFunction as _};

use super::{
    Arithmetic, Cpu, Weight,
    hidden_states::{HiddenStates, RowBuffer},
    row_kernels::RowNorm,
};
use crate::{
    OpError,
    cpu::{
        pace::complete,
        simd::{Isa, Lanes, WithSimd},
    },
    ops::encode::{
        Activation, Epilogue, Linear, Norm, Pooling, Role, Tensor,
        config::invalid,
        primitives::Primitives,
        weights::{check_norm, expect},
    },
};

/// Rows per block.
const BLOCK: usize = 64;

/// The function between the two products of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadActivation {
    /// The hyperbolic tangent.
    Tanh,
    /// One that encoders have, too.
    Of(Activation),
}

/// The weights of a head: `out(norm(activation(dense(state))))`.
#[derive(Clone, Debug)]
pub struct HeadWeights<W> {
    /// The pooling of the hidden states of a pair's tokens.
    pub pooling: Pooling,
    /// `[hidden, hidden]`.
    pub dense: Linear<W>,
    /// The activation after `dense`.
    pub activation: HeadActivation,
    /// The norm after `activation`.
    pub norm: Option<Norm<W>>,
    /// `[1, hidden]`.
    pub out: Linear<W>,
}

/// The head of a cross-encoder.
#[derive(Debug)]
pub struct ClassificationHead {
    parts: HeadWeights<Weight>,
    bytes: u64,
}

impl ClassificationHead {
    /// Checks the weights and packs them for products.
    pub fn new(parts: &HeadWeights<Tensor>) -> Result<Self, OpError> {
        let HeadWeights { pooling, dense, activation, norm, out } = parts;
        let hidden = dense.inputs;
        let products = [("dense", dense, hidden), ("out", out, 1)];
        for (name, linear, outputs) in products {
            if hidden == 0 || (linear.outputs, linear.inputs) != (outputs, hidden) {
                let got = [linear.outputs, linear.inputs];
                return invalid(format!("{name} of a head is [{outputs}, {hidden}], got {got:?}"));
            }
            expect(name, Some(&linear.weight), Some([outputs, hidden]))?;
            expect(name, linear.bias.as_ref(), linear.bias.is_some().then_some([outputs]))?;
        }
        check_norm("norm", norm.as_ref(), hidden)?;
        if *pooling == Pooling::None {
            return invalid("a head reads one state a pair".to_owned());
        }
        let mut bytes = 0;
        let mut load = |tensor: &Tensor, role: Role| {
            bytes += tensor.bytes().len() as u64;
            Weight::new(tensor, role, Arithmetic::F32(Isa::best()))
        };
        let parts = HeadWeights {
            pooling: *pooling,
            dense: dense.map(Role::Matrix, &mut load)?,
            activation: *activation,
            norm: Norm::map_option(norm.as_ref(), &mut load)?,
            out: out.map(Role::Matrix, &mut load)?,
        };
        Ok(Self { parts, bytes })
    }

    /// The pooling of the hidden states of a pair's tokens.
    pub fn pooling(&self) -> Pooling {
        self.parts.pooling
    }

    /// Numbers in a state.
    pub fn hidden(&self) -> usize {
        self.parts.dense.inputs
    }

    /// Bytes of its weights as they came.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The scores of pooled hidden states, `[n, hidden]`.
    pub fn scores(&self, hidden_states: &[f32]) -> Result<Vec<f32>, OpError> {
        let hidden = self.hidden();
        if !hidden_states.len().is_multiple_of(hidden) {
            return invalid(format!("{} numbers are not rows of {hidden}", hidden_states.len()));
        }
        let mut scores = Vec::with_capacity(hidden_states.len() / hidden);
        for rows in hidden_states.chunks(BLOCK * hidden) {
            let mut block = RowBuffer::new(rows.len() / hidden, hidden);
            block.numbers_mut().copy_from_slice(rows);
            scores.extend_from_slice(self.parts.run(&HiddenStates::F32(block))?.numbers()?.numbers());
        }
        Ok(scores)
    }
}

impl HeadWeights<Weight> {
    fn run(&self, hidden_states: &HiddenStates) -> Result<HiddenStates, OpError> {
        let isa = Isa::best();
        let on = &mut Cpu::new(isa, Arithmetic::F32(isa), false);
        let mut hidden_states = match self.activation {
            HeadActivation::Of(activation) => {
                complete(on.linear(hidden_states, &self.dense, Epilogue::Activation(activation)))?
            }
            HeadActivation::Tanh => {
                let mut hidden_states = complete(on.linear(hidden_states, &self.dense, Epilogue::Bias))?;
                isa.run(Squash(hidden_states.numbers_mut()?.numbers_mut()));
                hidden_states
            }
        };
        if let Some(norm) = &self.norm {
            RowNorm::new(norm)?.apply(isa, hidden_states.numbers_mut()?.numbers_mut());
        }
        complete(on.linear(&hidden_states, &self.out, Epilogue::Bias))
    }
}

/// The hyperbolic tangent of each number.
struct Squash<'a>(&'a mut [f32]);

impl WithSimd for Squash<'_> {
    type Out = ();

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "results are rounded")]
    fn run<L: Lanes>(self, _lanes: L) {
        for x in self.0 {
            let number = f64::from(*x);
            *x = if L::HAS_FMA { Tanh::compute::<true, true>(number) } else { Tanh::compute::<false, true>(number) }
                as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::ops::encode::{NormKind, oracle::erf};

    fn numbers(random: &mut StdRng, count: usize, size: f32) -> Vec<f32> {
        (0..count).map(|_| random.random_range(-size..size)).collect()
    }

    fn linear(random: &mut StdRng, outputs: usize, inputs: usize, has_bias: bool) -> Linear<Tensor> {
        let size = 2.0 / (inputs as f32).sqrt();
        let tensor = |shape: &[usize], numbers: &[f32]| Tensor::from_f32(shape, numbers).expect("a tensor");
        Linear {
            weight: tensor(&[outputs, inputs], &numbers(random, outputs * inputs, size)),
            bias: has_bias.then(|| tensor(&[outputs], &numbers(random, outputs, 0.5))),
            inputs,
            outputs,
        }
    }

    fn parts(hidden: usize, activation: HeadActivation, with_norm: bool) -> HeadWeights<Tensor> {
        let mut random = StdRng::seed_from_u64(hidden as u64);
        let weight = Tensor::from_f32(&[hidden], &numbers(&mut random, hidden, 2.0)).expect("a tensor");
        HeadWeights {
            pooling: Pooling::Cls,
            dense: linear(&mut random, hidden, hidden, !with_norm),
            activation,
            norm: with_norm.then_some(Norm { kind: NormKind::Layer, epsilon: 1e-5, weight, bias: None }),
            out: linear(&mut random, 1, hidden, true),
        }
    }

    fn product(linear: &Linear<Tensor>, x: &[f64]) -> Vec<f64> {
        let bias = linear.bias.as_ref().map_or_else(|| vec![0.0; linear.outputs], Tensor::to_f32);
        let weight = linear.weight.to_f32();
        let rows = weight.chunks_exact(linear.inputs).zip(bias);
        rows.map(|(row, bias)| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>() + f64::from(bias))
            .collect()
    }

    fn exact(parts: &HeadWeights<Tensor>, state: &[f32]) -> f64 {
        let state: Vec<_> = state.iter().map(|x| f64::from(*x)).collect();
        let mut x = product(&parts.dense, &state);
        for x in &mut x {
            *x = match parts.activation {
                HeadActivation::Tanh => x.tanh(),
                HeadActivation::Of(Activation::Relu) => x.max(0.0),
                HeadActivation::Of(_) => *x / 2.0 * (1.0 + erf(*x / 2_f64.sqrt())),
            }
        }
        if let Some(norm) = &parts.norm {
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / x.len() as f64;
            let factor = (variance + f64::from(norm.epsilon)).sqrt().recip();
            x.iter_mut().zip(norm.weight.to_f32()).for_each(|(x, w)| *x = (*x - mean) * factor * f64::from(w));
        }
        product(&parts.out, &x)[0]
    }

    #[test]
    fn scores_are_those_of_f64_loops_and_the_same_bits_alone_and_in_company() {
        let activations = [
            (HeadActivation::Tanh, false),
            (HeadActivation::Of(Activation::Relu), false),
            (HeadActivation::Of(Activation::Gelu), true),
        ];
        for hidden in [1, 7, 32, 384] {
            for (activation, with_norm) in activations {
                let parts = parts(hidden, activation, with_norm);
                let head = ClassificationHead::new(&parts).expect("a head");
                let hidden_states = numbers(&mut StdRng::seed_from_u64(5), 150 * hidden, 3.0);
                let scores = head.scores(&hidden_states).expect("scores");
                assert_eq!(scores.len(), 150);
                for (state, score) in hidden_states.chunks(hidden).zip(scores) {
                    let expected = exact(&parts, state);
                    assert!((f64::from(score) - expected).abs() < 2e-5 * (1.0 + expected.abs()), "{score} {expected}");
                    assert_eq!(head.scores(state).expect("a score")[0].to_bits(), score.to_bits());
                }
            }
        }
    }

    #[test]
    fn heads_that_do_not_fit_and_states_of_another_width_are_refused() {
        let fit = parts(8, HeadActivation::Tanh, true);
        let head = ClassificationHead::new(&fit).expect("a head");
        assert_eq!((head.hidden(), head.bytes()), (8, 4 * (64 + 8 + 8 + 1)));
        assert!(head.scores(&[0.0; 9]).is_err(), "one number too many");
        assert!(head.scores(&[]).expect("none").is_empty());
        let wide = linear(&mut StdRng::seed_from_u64(1), 2, 8, true);
        assert!(ClassificationHead::new(&HeadWeights { out: wide, ..fit.clone() }).is_err(), "two scores");
        let other = parts(9, HeadActivation::Tanh, true);
        assert!(ClassificationHead::new(&HeadWeights { norm: other.norm, ..fit.clone() }).is_err(), "a wider norm");
        assert!(ClassificationHead::new(&HeadWeights { pooling: Pooling::None, ..fit }).is_err(), "no pooling");
    }
}
