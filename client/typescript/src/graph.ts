// Graphs of tensor operations, and tensors that stay on a device of the daemon.

import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { type CallContext, type CallOptions, type Caller, iterate } from "./caller.js";
import { AccelerdError, malformed } from "./errors.js";
import {
    type ExecuteRequestSchema,
    type ExecuteResponse,
    type ResidentTensor as WireResident,
    type TensorAttributeSchema,
    type TensorInputSchema,
    TensorService,
    type UploadTensorRequestSchema,
} from "./generated/accelerd/v1/tensor_pb.js";
import type { Init } from "./init.js";
import { type Dtype, Tensor, arrayOf, bytesOf, dtypeOf, fromWire, toWire, wireDtype } from "./tensor.js";

/** A tensor in the memory of a device of the daemon. */
export interface ResidentTensor {
    readonly handle: string;
    readonly dtype: Dtype;
    readonly shape: readonly number[];
    readonly sizeBytes: number;
    /** Such as `cpu` or `cuda:0`. */
    readonly device: string;
}

/** The value of an attribute. A number without a fraction is an integer. */
export type Attribute = boolean | number | bigint | string | readonly (number | bigint)[];

/** Where results are computed. */
export interface ExecuteOptions extends CallOptions {
    /** Such as `cpu` or `cuda:0`; default: the daemon's choice. */
    readonly device?: string | undefined;
}

/** Where a tensor stays, and for how long without a use. */
export interface KeepOptions extends ExecuteOptions {
    /** Default and maximum are the daemon's. */
    readonly ttlMs?: number | undefined;
}

/** A value of a graph: an input, or a result of an operation. */
export class GraphValue {
    constructor(
        /** The graph that the value belongs to. */
        readonly graph: Graph,
        readonly name: string,
    ) {}
}

type Request = Init<typeof ExecuteRequestSchema>;
/** An input of a graph. */
interface Input {
    readonly name: string;
    readonly source: Tensor | ResidentTensor;
}
type Node = NonNullable<Request["nodes"]>[number];

/** A graph of operations, which one call computes. */
export class Graph {
    readonly inputs: Input[] = [];
    readonly nodes: Node[] = [];

    /** Adds an input: a tensor, or one that is resident. */
    input(source: Tensor | ResidentTensor, name = `input${this.inputs.length}`): GraphValue {
        this.inputs.push({ name, source });
        return new GraphValue(this, name);
    }

    /**
     * Adds an operation with the name and the attributes of PyTorch's function, such as `op("sum", [x], { dim: 1 })`.
     *
     * Of an operation with several results, `output` returns each.
     */
    op(op: string, inputs: readonly GraphValue[], attributes: Readonly<Record<string, Attribute>> = {}): GraphValue {
        const foreign = inputs.find(({ graph }) => graph !== this);
        if (foreign !== undefined) throw new Error(`${op}: expected values of this graph, got ${foreign.name} of another one`);
        const name = `node${this.nodes.length}`;
        const wire = Object.entries(attributes).map(([key, value]) => [key, { value: attribute(value, `${op}: ${key}`) }]);
        this.nodes.push({ name, op, inputs: inputs.map((input) => input.name), attributes: Object.fromEntries(wire) });
        return new GraphValue(this, name);
    }

    /** Returns a result of an operation with several, such as the indices of `topk`. */
    output(value: GraphValue, index: number): GraphValue {
        return new GraphValue(this, index === 0 ? value.name : `${value.name}:${index}`);
    }
}

function attribute(value: Attribute, what: string): NonNullable<Init<typeof TensorAttributeSchema>["value"]> {
    if (typeof value === "boolean") return { case: "boolean", value };
    if (typeof value === "string") return { case: "text", value };
    if (typeof value === "bigint" || Number.isSafeInteger(value)) return { case: "integer", value: BigInt(value as number) };
    if (typeof value === "number") return { case: "number", value };
    if (Array.isArray(value)) return { case: "integers", value: { values: value.map(BigInt) } };
    throw new TypeError(`${what}: expected a boolean, a number, a string or a list of integers, got ${typeof value}`);
}

/** Returns the message of an input of a graph, a kernel or a comparison. */
export function tensorInput(name: string, source: Tensor | ResidentTensor): Init<typeof TensorInputSchema> & { name: string } {
    const wire =
        source instanceof Tensor ? { case: "value" as const, value: toWire(source) } : { case: "handle" as const, value: source.handle };
    return { name, source: wire };
}

/** Makes a call that returns the values, or keeps them. Inputs that exceed a message are uploaded for it. */
async function run(
    caller: Caller,
    values: readonly GraphValue[],
    keep: boolean,
    options: KeepOptions,
    context: CallContext,
): Promise<ExecuteResponse> {
    const graph = values[0]?.graph;
    if (graph === undefined) throw new RangeError("values: expected at least one, got none");
    if (values.some((value) => value.graph !== graph)) throw new Error("values: expected values of one graph");
    const uploaded: ResidentTensor[] = [];
    try {
        const inputs = await fitted(caller, graph.inputs, { device: options.device }, context, uploaded);
        const request: Request = {
            inputs: inputs.map(({ name, source }) => tensorInput(name, source)),
            nodes: graph.nodes,
            outputs: values.map(({ name }) => ({ name, keep })),
            device: options.device ?? "",
            ...(options.ttlMs === undefined ? {} : { keepTtl: durationFromMs(options.ttlMs) }),
        };
        // A call that keeps tensors would keep them twice.
        return await caller.call(TensorService.method.execute, request, context, !keep);
    } finally {
        await discard(caller, uploaded);
    }
}

/** Room of a request for what is not an element of an input. */
const RESERVED = 1 << 20;

/** Returns inputs that fit into a message: all of them, or the large ones as uploaded tensors, which are added to `uploaded`. */
async function fitted(
    caller: Caller,
    inputs: readonly Input[],
    options: KeepOptions,
    context: CallContext,
    uploaded: ResidentTensor[],
): Promise<readonly Input[]> {
    const size = ({ source }: Input) => (source instanceof Tensor ? source.data.byteLength : 0);
    const limit = caller.settings.maxMessageBytes - RESERVED;
    const total = inputs.reduce((sum, input) => sum + size(input), 0);
    if (total <= limit || !caller.connections.canStreamRequests) return inputs;
    const made: Input[] = [];
    for (const { name, source } of inputs) {
        const isLarge = source instanceof Tensor && source.data.byteLength > limit / inputs.length;
        if (isLarge) uploaded.push(await uploadIn(caller, source, options, context));
        made.push({ name, source: (isLarge && uploaded.at(-1)) || source });
    }
    return made;
}

/** Frees tensors of a call. Those that cannot be freed are freed after their time to live. */
async function discard(caller: Caller, tensors: readonly ResidentTensor[]): Promise<void> {
    if (tensors.length > 0) await free(caller, tensors, {}).catch(() => undefined);
}

/** Outputs that exceed a message are kept and downloaded. */
export async function execute(caller: Caller, values: readonly GraphValue[], options: ExecuteOptions): Promise<Tensor[]> {
    const context = caller.context(options);
    try {
        const { outputs } = await run(caller, values, false, options, context);
        return outputs.map(fromWire);
    } catch (problem) {
        if (!(problem instanceof AccelerdError && problem.isTooLarge)) throw problem;
    }
    const kept = (await run(caller, values, true, options, context)).kept.map(readResident);
    try {
        const outputs: Tensor[] = [];
        for (const tensor of kept) outputs.push(await downloadIn(caller, tensor, context));
        return outputs;
    } finally {
        await discard(caller, kept);
    }
}

export async function keep(caller: Caller, values: readonly GraphValue[], options: KeepOptions): Promise<ResidentTensor[]> {
    const { kept } = await run(caller, values, true, options, caller.context(options));
    return kept.map(readResident);
}

/** Returns a tensor that the daemon keeps. */
export function readResident({ handle, dtype, shape, sizeBytes, device }: WireResident): ResidentTensor {
    return { handle, dtype: dtypeOf(dtype), shape: shape.map(Number), sizeBytes: Number(sizeBytes), device };
}

const CHUNK_BYTES = 1 << 20;

/** Uploads over a stream; in a browser, where there is none, as the input of a graph that keeps it. */
async function uploadIn(caller: Caller, tensor: Tensor, options: KeepOptions, context: CallContext): Promise<ResidentTensor> {
    if (!caller.connections.canStreamRequests) {
        const input = new Graph().input(tensor);
        const { kept } = await run(caller, [input], true, options, context);
        return single(kept.map(readResident));
    }
    const found: ResidentTensor[] = [];
    const requests = () => iterate(uploadRequests(tensor, options));
    for await (const response of caller.retried(TensorService.method.uploadTensor, requests, context)) {
        if (response.tensor !== undefined) found.push(readResident(response.tensor));
    }
    return single(found);
}

export function upload(caller: Caller, tensor: Tensor, options: KeepOptions): Promise<ResidentTensor> {
    return uploadIn(caller, tensor, options, caller.context(options));
}

export function download(caller: Caller, tensor: ResidentTensor, options: CallOptions): Promise<Tensor> {
    return downloadIn(caller, tensor, caller.context(options));
}

function single(found: readonly ResidentTensor[]): ResidentTensor {
    const [tensor] = found;
    if (tensor === undefined || found.length > 1) throw malformed(`${found.length} resident tensors, expected one`);
    return tensor;
}

function* uploadRequests(tensor: Tensor, options: KeepOptions): Generator<Init<typeof UploadTensorRequestSchema>> {
    const bytes = bytesOf(tensor.data);
    const ttl = options.ttlMs === undefined ? {} : { ttl: durationFromMs(options.ttlMs) };
    const header = { dtype: wireDtype(tensor.dtype), shape: tensor.shape.map(BigInt), device: options.device ?? "", ...ttl };
    yield { header, data: bytes.subarray(0, CHUNK_BYTES) };
    for (let at = CHUNK_BYTES; at < bytes.length; at += CHUNK_BYTES) yield { data: bytes.subarray(at, at + CHUNK_BYTES) };
}

async function downloadIn(caller: Caller, { handle }: ResidentTensor, context: CallContext): Promise<Tensor> {
    let header: ResidentTensor | undefined;
    let bytes = new Uint8Array();
    let filled = 0;
    for await (const part of caller.retried(TensorService.method.downloadTensor, () => iterate([{ handle }]), context)) {
        if (part.tensor !== undefined) {
            header = readResident(part.tensor);
            bytes = new Uint8Array(header.sizeBytes);
        }
        if (filled + part.data.length > bytes.length) throw malformed(`more than the ${bytes.length} bytes of the tensor`);
        bytes.set(part.data, filled);
        filled += part.data.length;
    }
    if (header === undefined || filled < bytes.length) throw malformed(`${filled} of ${bytes.length} bytes of the tensor`);
    return new Tensor(header.dtype, header.shape, arrayOf(header.dtype, bytes));
}

export async function free(caller: Caller, tensors: readonly ResidentTensor[], options: CallOptions): Promise<void> {
    const request = { handles: tensors.map(({ handle }) => handle) };
    await caller.call(TensorService.method.freeTensors, request, caller.context(options));
}

export async function copy(caller: Caller, tensor: ResidentTensor, device: string, options: KeepOptions): Promise<ResidentTensor> {
    const ttl = options.ttlMs === undefined ? {} : { ttl: durationFromMs(options.ttlMs) };
    const request = { handle: tensor.handle, device, ...ttl };
    const { tensor: copied } = await caller.call(TensorService.method.copyTensor, request, caller.context(options));
    if (copied === undefined) throw malformed("no tensor");
    return readResident(copied);
}

export async function listTensors(caller: Caller, options: CallOptions): Promise<ResidentTensor[]> {
    return (await caller.call(TensorService.method.listTensors, {}, caller.context(options))).tensors.map(readResident);
}
