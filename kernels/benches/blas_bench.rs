//! Checks cuBLASLt's products of every type against sums in f64 on the host, launched directly and from a graph, and
//! measures square products. Exits with 1 if a result is wrong.
//!
//! `blas_bench [--check]`: `--check` measures nothing. `ACCELERD_CUDA_LIBRARY_PATH` lists folders of NVRTC and cuBLASLt.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::{env, path::PathBuf, time::Instant};

use accelerd_kernels::{
    Backend, Choice, OpError, Settings,
    cuda::{Buffer, Compute, DevicePtr, Element, Epilogue, Product, Worker},
    discover,
};
use half::{bf16, f16};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const F32: Element = Element::F32;

fn main() {
    let folders = env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: Choice::Cuda,
        cuda_library_paths: env::split_paths(&folders).filter(|path| path != &PathBuf::new()).collect(),
        staging_bytes: 64 << 20,
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|reason| panic!("no GPU to measure: {reason}"));
    let device = found.devices.first().expect("CUDA was asked for");
    let Ok(Backend::Cuda(worker)) = device.open() else { panic!("a worker opens") };
    println!("{}", device.info().product);
    let mut wrong = 0;
    for kind in KINDS {
        wrong += kind.products().iter().filter(|product| !is_right(&worker, &kind, product)).count();
    }
    wrong += usize::from(!refuses_what_is_not_prepared(&worker));
    if !env::args().any(|argument| argument == "--check") {
        for kind in &KINDS {
            measure(&worker, kind);
        }
    }
    println!("{:?}", device.kernel_stats().iter().find(|stats| stats.name == "cublaslt_matmul"));
    println!("{}", if wrong == 0 { "every checked result is right" } else { "SOME RESULTS ARE WRONG" });
    std::process::exit(i32::from(wrong != 0));
}

/// Types, with the relative error of a term of the sum and of storing the result.
struct Kind {
    name: &'static str,
    input: Element,
    output: Element,
    compute: Compute,
    term_error: f64,
    output_error: f64,
}

const KINDS: [Kind; 8] = [
    Kind::new("f64", Element::F64, Element::F64, Compute::F32, 1.2e-16, 1.2e-16),
    Kind::new("f32", F32, F32, Compute::F32, 6e-8, 6e-8),
    // Inputs lose 13 bits of their fraction, by rounding or truncation.
    Kind::new("tf32", F32, F32, Compute::Tf32, 2e-3, 6e-8),
    Kind::new("f16", Element::F16, Element::F16, Compute::F32, 1.2e-7, 4.9e-4),
    Kind::new("f16 to f32", Element::F16, F32, Compute::F32, 1.2e-7, 6e-8),
    Kind::new("bf16", Element::Bf16, Element::Bf16, Compute::F32, 1.2e-7, 3.9e-3),
    Kind::new("bf16 to f32", Element::Bf16, F32, Compute::F32, 1.2e-7, 6e-8),
    Kind::new("i8 to i32", Element::I8, Element::I32, Compute::F32, 0.0, 0.0),
];

impl Kind {
    const fn new(
        name: &'static str,
        input: Element,
        output: Element,
        compute: Compute,
        term_error: f64,
        output_error: f64,
    ) -> Self {
        Self { name, input, output, compute, term_error, output_error }
    }

    fn product(&self, m: usize, n: usize, k: usize) -> Product {
        let transpose_b = self.input == Element::I8;
        Product { compute: self.compute, transpose_b, ..Product::of(self.input, self.output, m, n, k) }
    }

    /// Products with every transposition, batches, strides and scales that the types have.
    fn products(&self) -> Vec<Product> {
        let plain = self.product(96, 128, 160);
        let batched =
            Product { batch: 3, stride_a: 96 * 160, stride_b: 0, stride_c: 96 * 128, alpha: 2.0, beta: -1.0, ..plain };
        let strided = Product { m: 33, lda: 176, ldb: 192, ldc: 144, ..plain };
        let mut products = vec![plain, batched, strided];
        if self.input != Element::I8 {
            products.push(self.product(31, 65, 129));
            for (transpose_a, transpose_b) in [(true, false), (false, true), (true, true)] {
                products.push(Product { transpose_a, transpose_b, alpha: 0.5, ..self.product(40, 72, 56) });
            }
        }
        if self.output != Element::F64 && self.input != Element::I8 {
            products.push(Product { epilogue: Epilogue::Bias, ..plain });
        }
        products
    }
}

/// A matrix's numbers, on the host and as stored on the device.
struct Matrix {
    values: Vec<f64>,
    buffer: Buffer<u8>,
}

impl Matrix {
    fn random(worker: &Worker, element: Element, count: usize, seed: u64) -> Result<Self, OpError> {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut number = || match element {
            Element::I8 | Element::I32 => f64::from(random.random_range(-127_i32..=127)),
            Element::F64 | Element::F32 | Element::F16 | Element::Bf16 => random.random_range(-1.0_f64..1.0),
        };
        let bytes: Vec<u8> = (0..count).flat_map(|_| encode(element, number())).collect();
        let values = bytes.chunks_exact(element.bytes()).map(|bytes| decode(element, bytes)).collect();
        Ok(Self { values, buffer: worker.upload_new(&bytes)? })
    }

    fn ptr(&self) -> DevicePtr<u8> {
        self.buffer.ptr()
    }
}

fn encode(element: Element, value: f64) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "rounded to the element's type; integers are in range")]
    match element {
        Element::F64 => value.to_le_bytes().to_vec(),
        Element::F32 => (value as f32).to_le_bytes().to_vec(),
        Element::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        Element::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        Element::I8 => (value as i8).to_le_bytes().to_vec(),
        Element::I32 => (value as i32).to_le_bytes().to_vec(),
    }
}

fn decode(element: Element, bytes: &[u8]) -> f64 {
    const WIDTH: &str = "as many bytes as the element has";
    match element {
        Element::F64 => f64::from_le_bytes(bytes.try_into().expect(WIDTH)),
        Element::F32 => f64::from(f32::from_le_bytes(bytes.try_into().expect(WIDTH))),
        Element::F16 => f16::from_le_bytes(bytes.try_into().expect(WIDTH)).to_f64(),
        Element::Bf16 => bf16::from_le_bytes(bytes.try_into().expect(WIDTH)).to_f64(),
        Element::I8 => f64::from(i8::from_le_bytes(bytes.try_into().expect(WIDTH))),
        Element::I32 => f64::from(i32::from_le_bytes(bytes.try_into().expect(WIDTH))),
    }
}

/// Row stride of a stored matrix.
fn stride(ld: usize, cols: usize) -> usize {
    if ld == 0 { cols } else { ld }
}

fn is_right(worker: &Worker, kind: &Kind, product: &Product) -> bool {
    let worst = compare(worker, kind, product).unwrap_or_else(|error| {
        println!("{}: {error}", kind.name);
        f64::INFINITY
    });
    println!(
        "{:12} {}x{}x{} x {}, transposed {:?}, {:?}: error {:.3} of the bound",
        kind.name,
        product.m,
        product.n,
        product.k,
        product.batch,
        (product.transpose_a, product.transpose_b),
        product.epilogue,
        worst
    );
    worst <= 1.0
}

/// The largest error, as a share of its bound, of the product from a graph and launched directly.
fn compare(worker: &Worker, kind: &Kind, product: &Product) -> Result<f64, OpError> {
    let (rows_a, cols_a) = if product.transpose_a { (product.k, product.m) } else { (product.m, product.k) };
    let (rows_b, cols_b) = if product.transpose_b { (product.n, product.k) } else { (product.k, product.n) };
    let elements = |rows, cols, ld, batch_stride| (product.batch - 1) * batch_stride + rows * stride(ld, cols);
    let a = Matrix::random(worker, kind.input, elements(rows_a, cols_a, product.lda, product.stride_a), 1)?;
    let b = Matrix::random(worker, kind.input, elements(rows_b, cols_b, product.ldb, product.stride_b), 2)?;
    let count = elements(product.m, product.n, product.ldc, product.stride_c);
    let bias = Matrix::random(worker, kind.output, product.n, 3)?;
    let from_graph = Matrix::random(worker, kind.output, count, 4)?;
    let direct = Matrix::random(worker, kind.output, count, 4)?;

    // The capture comes first: nothing but the preparation has touched this product.
    worker.prepare_multiply(product, a.ptr(), b.ptr(), from_graph.ptr())?;
    let multiply = |c: &Matrix| worker.multiply(product, a.ptr(), b.ptr(), c.ptr(), bias.ptr(), 0);
    let (graph, ()) = worker.record(|| multiply(&from_graph))?;
    worker.replay(&graph)?;
    multiply(&direct)?;
    let worst = [&from_graph, &direct].map(|c| {
        let bytes = worker.download(&c.buffer, ..)?;
        let stored: Vec<_> = bytes.chunks_exact(kind.output.bytes()).map(|bytes| decode(kind.output, bytes)).collect();
        Ok(worst_error(kind, product, [&a, &b, c, &bias].map(|matrix| &matrix.values[..]), &stored))
    });
    let [from_graph, direct] = worst;
    Ok(f64::max(from_graph?, direct?))
}

/// Compares with sums in f64. A sum's error is bounded by its terms' magnitudes; `c` holds the values before.
fn worst_error(kind: &Kind, product: &Product, [a, b, c, bias]: [&[f64]; 4], stored: &[f64]) -> f64 {
    let ld_a = stride(product.lda, if product.transpose_a { product.m } else { product.k });
    let ld_b = stride(product.ldb, if product.transpose_b { product.k } else { product.n });
    let ld_c = stride(product.ldc, product.n);
    let mut worst = 0.0_f64;
    for batch in 0..product.batch {
        for (i, j) in (0..product.m).flat_map(|i| (0..product.n).map(move |j| (i, j))) {
            let mut sum = 0.0;
            let mut magnitude = 0.0;
            for l in 0..product.k {
                let x = a[batch * product.stride_a + if product.transpose_a { l * ld_a + i } else { i * ld_a + l }];
                let y = b[batch * product.stride_b + if product.transpose_b { j * ld_b + l } else { l * ld_b + j }];
                sum += x * y;
                magnitude += (x * y).abs();
            }
            let offset = batch * product.stride_c + i * ld_c + j;
            let added = if product.epilogue == Epilogue::Bias { bias[j] } else { 0.0 };
            let expected = product.alpha * sum + product.beta * c[offset] + added;
            let scale = product.alpha.abs() * magnitude + (product.beta * c[offset]).abs() + added.abs();
            // TF32 rounds each input once; the others round each partial sum.
            let steps = if kind.compute == Compute::Tf32 { 1.0 } else { product.k as f64 };
            let bound = steps * kind.term_error * scale + kind.output_error * expected.abs();
            let error = (stored[offset] - expected).abs();
            // A bound of 0 is that of integers; NaN counts as an error.
            worst = worst.max(if error == 0.0 {
                0.0
            } else if bound > 0.0 {
                error / bound
            } else {
                f64::INFINITY
            });
            if error.is_nan() {
                return f64::INFINITY;
            }
        }
    }
    worst
}

/// A capture of a product without a plan fails, names the remedy, and leaves the worker usable.
fn refuses_what_is_not_prepared(worker: &Worker) -> bool {
    let product = Product::new(17, 19, 23);
    let Ok(memory) = worker.alloc_zeroed::<f32>(1024) else { return false };
    let multiply = || worker.multiply(&product, memory.ptr(), memory.ptr(), memory.ptr(), DevicePtr::<f32>::NULL, 0);
    let refused = worker.record(multiply).err().map(|error| error.to_string()).unwrap_or_default();
    println!("refused: {refused}");
    refused.contains("prepare_multiply") && worker.synchronize().is_ok()
}

fn measure(worker: &Worker, kind: &Kind) {
    // f64 takes long beyond 4096.
    let limit = if kind.input == Element::F64 { 4096 } else { 8192 };
    for size in [128, 512, 1024, 2048, 4096, 8192].into_iter().filter(|size| *size <= limit) {
        match seconds(worker, kind, size) {
            Ok(time) => {
                let rate = 2.0 * (size as f64).powi(3) / time / 1e12;
                println!("{:12} {size:5}^3 {:9.1} us {rate:7.1} TFLOP/s", kind.name, 1e6 * time);
            }
            Err(error) => println!("{:12} {size:5}^3 {error}", kind.name),
        }
    }
}

/// The mean seconds of a square product on random numbers, of which the power limit depends.
fn seconds(worker: &Worker, kind: &Kind, size: usize) -> Result<f64, OpError> {
    let random = |element: Element, seed| -> Result<Buffer<u8>, OpError> {
        let bytes = size * size * element.bytes();
        let rows = size.min(256);
        let block = Matrix::random(worker, element, rows * size, seed)?.buffer;
        let whole = worker.alloc::<u8>(bytes)?;
        (0..bytes / block.len())
            .try_for_each(|index| worker.copy_at(&block, 0, &whole, index * block.len(), block.len()))?;
        Ok(whole)
    };
    let a = random(kind.input, 1)?;
    let b = random(kind.input, 2)?;
    let c = worker.alloc::<u8>(size * size * kind.output.bytes())?;
    let product = kind.product(size, size, size);
    let multiply = || worker.multiply(&product, a.ptr(), b.ptr(), c.ptr(), DevicePtr::<u8>::NULL, 0);
    let runs = if size < 4096 { 50_u32 } else { 10 };
    (0..3).try_for_each(|_| multiply())?;
    worker.synchronize()?;
    let start = Instant::now();
    (0..runs).try_for_each(|_| multiply())?;
    worker.synchronize()?;
    Ok(start.elapsed().as_secs_f64() / f64::from(runs))
}
