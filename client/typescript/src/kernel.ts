// Kernels in Python: translated to CUDA C++ and WebAssembly, and run by the daemon.

import { durationMs } from "@bufbuild/protobuf/wkt";
import type { CallOptions, Caller } from "./caller.js";
import { choice, nameOf } from "./choices.js";
import { AccelerdError, malformed } from "./errors.js";
import { type ResidentTensor, tensorInput } from "./graph.js";
import {
    type CompileResponse,
    type Kernel,
    type KernelConstantSchema,
    KernelDevice,
    KernelDialect,
    type KernelFault as WireFault,
    KernelFaultKind,
    type KernelParam,
    type KernelProgramSchema,
    KernelService,
    KernelTarget,
    type NamedTensor,
    type TranslateResponse,
} from "./generated/accelerd/v1/kernel_pb.js";
import { Dtype as WireDtype } from "./generated/accelerd/v1/tensor_pb.js";
import type { Init } from "./init.js";
import { dtypeOf, type ElementArray, fromWire, type Nested, Tensor } from "./tensor.js";

/** A module in Python, and the kernel of it. */
export interface Program {
    readonly source: string;
    /** Name of the kernel; not needed if the module has only one. */
    readonly name?: string | undefined;
    /** What operators and functions mean; default: warp if a function has a decorator of Warp, else python. */
    readonly dialect?: "warp" | "python" | undefined;
    /** Names that the module uses and does not define. Numbers without a fraction are integers. */
    readonly constants?: Readonly<Record<string, number | bigint | boolean>> | undefined;
}

/** Options of a translation. */
export interface TranslateOptions extends CallOptions, Omit<Program, "source" | "name"> {
    /** Names of the kernels to translate; default: all. */
    readonly names?: readonly string[] | undefined;
    /** Default: cuda and wasm. */
    readonly targets?: readonly ("cuda" | "wasm" | "ptx")[] | undefined;
    /** Architecture of PTX, such as sm_90. */
    readonly cudaArch?: string | undefined;
}

/** Options of a compilation. */
export interface CompileOptions extends CallOptions {
    /** Compile for a GPU as well: an architecture such as sm_90, or empty for that of the daemon's GPU. */
    readonly cudaArch?: string | undefined;
}

/** An argument of a kernel. Numbers and lists get the type of the parameter; tensors and arrays must have it. */
export type Argument = Tensor | ResidentTensor | ElementArray | Nested;

/** Options of a launch. */
export interface LaunchOptions extends CallOptions {
    /** Extents of the grid of threads. The dialect python needs none: it has a thread for each element. */
    readonly grid?: readonly number[] | undefined;
    /** Arrays to return, with their shapes if they are no arguments; default: all that the kernel writes. */
    readonly outputs?: Readonly<Record<string, readonly number[] | undefined>> | readonly string[] | undefined;
    /** Default cpu. */
    readonly device?: "cpu" | "cuda" | undefined;
    /** Maximum number of iterations of all loops of a thread together. */
    readonly loopBudget?: number | bigint | undefined;
}

/** What a kernel computed. */
export interface Launched {
    readonly outputs: Readonly<Record<string, Tensor>>;
    /** How long its threads ran. */
    readonly executionMs: number;
    readonly device: string;
}

/** A kernel ended early, because it did what its dialect forbids. */
export class KernelFault extends Error {
    override readonly name = "KernelFault";
    /** Such as out_of_bounds or division_by_zero. */
    readonly kind: string;
    /** The thread of the grid, in row-major order. */
    readonly thread: bigint;
    /** Line from 1 and column from 0 in the source. */
    readonly line: number;
    readonly column: number;
    /** Name of the array that was accessed, or empty. */
    readonly array: string;
    /** The index, dimension and extent of an access out of bounds. */
    readonly index: bigint;
    readonly dimension: number;
    readonly extent: bigint;

    constructor({ kind, thread, line, column, array, index, dimension, extent }: WireFault) {
        const isAccess = kind === KernelFaultKind.OUT_OF_BOUNDS;
        const access = isAccess ? `: index ${index} of dimension ${dimension} of '${array}' with extent ${extent}` : "";
        super(`${nameOf(KernelFaultKind, kind)}${access}, in thread ${thread}, line ${line}`);
        this.kind = nameOf(KernelFaultKind, kind);
        this.thread = thread;
        this.line = line;
        this.column = column;
        this.array = array;
        this.index = index;
        this.dimension = dimension;
        this.extent = extent;
    }
}

/** Returns the message of a program, or of its source. */
export function wireProgram(program: Program | string): Init<typeof KernelProgramSchema> {
    const { source, name = "", dialect, constants = {} } = typeof program === "string" ? { source: program } : program;
    return { source, name, dialect: choice("dialect", KernelDialect, dialect), constants: wireConstants(constants) };
}

function wireConstants(constants: NonNullable<Program["constants"]>): Record<string, Init<typeof KernelConstantSchema>> {
    const entries = Object.entries(constants).map(([name, value]) => {
        if (typeof value === "boolean") return [name, { value: { case: "boolean" as const, value } }] as const;
        const isInteger = typeof value === "bigint" || Number.isSafeInteger(value);
        if (isInteger) return [name, { value: { case: "integer" as const, value: BigInt(value) } }] as const;
        return [name, { value: { case: "number" as const, value } }] as const;
    });
    return Object.fromEntries(entries);
}

export function translate(caller: Caller, source: string, options: TranslateOptions): Promise<TranslateResponse> {
    const message = {
        source,
        dialect: choice("dialect", KernelDialect, options.dialect),
        constants: wireConstants(options.constants ?? {}),
        names: [...(options.names ?? [])],
        targets: (options.targets ?? []).map((target): KernelTarget => choice("targets", KernelTarget, target)),
        cudaArch: options.cudaArch ?? "",
    };
    return caller.call(KernelService.method.translate, message, caller.context(options));
}

export function compile(caller: Caller, program: Program | string, options: CompileOptions): Promise<CompileResponse> {
    const cuda = options.cudaArch === undefined ? {} : { cuda: { arch: options.cudaArch } };
    return caller.call(KernelService.method.compile, { program: wireProgram(program), ...cuda }, caller.context(options));
}

export async function launch(
    caller: Caller,
    program: Program | string,
    args: Readonly<Record<string, Argument>>,
    options: LaunchOptions,
): Promise<Launched> {
    const context = caller.context(options);
    const wire = wireProgram(program);
    const params = Object.values(args).every(isTensor) ? [] : await paramsOf(caller, wire, context);
    const request = {
        kernel: { case: "program" as const, value: wire },
        grid: (options.grid ?? []).map(BigInt),
        arguments: Object.entries(args).map(([name, value]) => tensorInput(name, argument(name, value, params))),
        outputs: wireOutputs(options.outputs ?? []),
        device: choice("device", KernelDevice, options.device),
        ...(options.loopBudget === undefined ? {} : { loopBudget: BigInt(options.loopBudget) }),
    };
    const { fault, outputs, executionTime, device } = await caller.call(KernelService.method.launch, request, context);
    if (fault !== undefined) throw new KernelFault(fault);
    return {
        outputs: named(outputs),
        executionMs: executionTime === undefined ? 0 : durationMs(executionTime),
        device: nameOf(KernelDevice, device),
    };
}

function wireOutputs(outputs: NonNullable<LaunchOptions["outputs"]>): { name: string; shape: bigint[] }[] {
    if (Array.isArray(outputs)) return outputs.map((name: string) => ({ name, shape: [] }));
    return Object.entries(outputs).map(([name, shape]: [string, readonly number[] | undefined]) => ({
        name,
        shape: (shape ?? []).map(BigInt),
    }));
}

/** Returns tensors by name. */
export function named(tensors: readonly NamedTensor[]): Record<string, Tensor> {
    return Object.fromEntries(tensors.map(({ name, value }) => [name, fromWire(value)]));
}

function isTensor(value: Argument): value is Tensor | ResidentTensor {
    return value instanceof Tensor || (typeof value === "object" && "handle" in value);
}

/** The daemon compiles equal programs once. */
async function paramsOf(
    caller: Caller,
    program: Init<typeof KernelProgramSchema>,
    context: Parameters<Caller["call"]>[2],
): Promise<KernelParam[]> {
    const { kernel } = await caller.call(KernelService.method.compile, { program }, context);
    if (kernel === undefined) throw malformed("no kernel");
    return kernel.params;
}

function argument(name: string, value: Argument, params: readonly KernelParam[]): Tensor | ResidentTensor {
    if (isTensor(value)) return value;
    const param = params.find((candidate) => candidate.name === name);
    if (param === undefined) throw new AccelerdError("INVALID_ARGUMENT", `${name}: the kernel has no such parameter`);
    const dtype = dtypeOf(param.components[0]?.dtype ?? WireDtype.UNSPECIFIED);
    if (!ArrayBuffer.isView(value)) return Tensor.from(value, dtype);
    const tensor = Tensor.from(value);
    // The components of vectors and matrices are trailing dimensions, which an array does not have.
    const width = param.components.length;
    const shape = param.dims === 1 && width > 1 && tensor.size % width === 0 ? [tensor.size / width, width] : tensor.shape;
    const isHalf = value instanceof Uint16Array && (dtype === "f16" || dtype === "bf16");
    return new Tensor(isHalf ? dtype : tensor.dtype, shape, tensor.data);
}

export async function listKernels(caller: Caller, options: CallOptions): Promise<Kernel[]> {
    return (await caller.call(KernelService.method.listKernels, {}, caller.context(options))).kernels;
}

export async function evictKernel(caller: Caller, kernelId: string, options: CallOptions): Promise<void> {
    await caller.call(KernelService.method.evictKernel, { kernelId }, caller.context(options));
}
