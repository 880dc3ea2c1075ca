// Comparisons of outputs, and verification of functions.

import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { type CallOptions, type Caller, iterate } from "./caller.js";
import { choice } from "./choices.js";
import { malformed } from "./errors.js";
import { type ResidentTensor, tensorInput } from "./graph.js";
import { KernelDevice } from "./generated/accelerd/v1/kernel_pb.js";
import {
    type CompareOutputsResponse,
    type ComparisonPolicySchema,
    ElementOrder,
    type InputDomainSchema,
    InfinityPolicy,
    NanPolicy,
    OutcomePolicy,
    ShapePolicy,
    type ToleranceSchema,
    ToleranceCombination,
    type VerifyHeaderSchema,
    type VerifyRequestSchema,
    VerifyService,
    type VerifySummary,
    type WasmFunctionSchema,
    WasmParamKind,
} from "./generated/accelerd/v1/verify_pb.js";
import type { Init } from "./init.js";
import { type Program, wireProgram } from "./kernel.js";
import { type Dtype, Tensor, wireDtype } from "./tensor.js";

/** Which elements count as equal. Without a tolerance, those of torch.testing for the element type apply. */
export interface Policy {
    /** Tolerance of |actual - expected| <= atol + rtol * |expected|. Each is 0 if only the other is set. */
    readonly atol?: number | undefined;
    readonly rtol?: number | undefined;
    /** Largest distance in units in the last place. */
    readonly maxUlps?: number | bigint | undefined;
    /** Largest absolute error relative to the largest finite expected number. */
    readonly maxNorm?: number | undefined;
    /** Accept equal numbers only. */
    readonly exact?: boolean | undefined;
    /** Whether all tolerances must accept a pair, or any; default any. */
    readonly require?: "any" | "all" | undefined;
    /** Whether two NaN are equal: never (default), always, or if their bits are. */
    readonly equalNan?: boolean | "bits" | undefined;
    /** Whether infinities fail, also equal ones. */
    readonly forbidInfinity?: boolean | undefined;
    /** Whether -0 and +0 differ. */
    readonly signedZero?: boolean | undefined;
    /** Whether shapes may differ if the numbers of elements are equal. */
    readonly ignoreShape?: boolean | undefined;
    /** Whether the order of elements does not matter. */
    readonly anyOrder?: boolean | undefined;
}

/** Policies of outputs by name, in place of the others. */
interface OutputPolicies {
    readonly policies?: Readonly<Record<string, Policy>> | undefined;
}

/** Options of a comparison. */
export interface CompareOptions extends CallOptions, Policy, OutputPolicies {
    /** Maximum number of mismatches to list for an output. */
    readonly maxMismatches?: number | undefined;
    /** Return which rows fail. */
    readonly rowVerdicts?: boolean | undefined;
}

/** What is compared: a tensor, or tensors by name. */
export type Compared = Tensor | ResidentTensor | Readonly<Record<string, Tensor | ResidentTensor>>;

/** A function of a WebAssembly module. */
export interface Wasm {
    readonly module: Uint8Array;
    /** Not needed if the module exports only one function. */
    readonly function?: string | undefined;
    /** Default: those of the other side. */
    readonly params?: readonly WasmParam[] | undefined;
    readonly results?: readonly { readonly name: string; readonly dtype: Dtype }[] | undefined;
    /** Run the cases of a chunk in one instance. */
    readonly shareInstance?: boolean | undefined;
}

/** A parameter of a WebAssembly function. */
export interface WasmParam {
    readonly name: string;
    readonly dtype: Dtype;
    /** Default value. */
    readonly kind?: "value" | "input" | "output" | "in_out" | undefined;
    /** Elements of a buffer. */
    readonly length?: number | undefined;
    /** The function takes the address of the buffer, and not its length. */
    readonly addressOnly?: boolean | undefined;
}

/** A side of a verification: a function in Python or WebAssembly, or outputs whose first dimension is the cases. */
export type Side = string | Program | Wasm | { readonly outputs: Readonly<Record<string, Tensor>> };

/** The values of a generated input. Bounds of integers are bigint. */
export interface Domain {
    readonly min?: number | bigint | undefined;
    readonly max?: number | bigint | undefined;
    readonly allowNan?: boolean | undefined;
    readonly allowInfinity?: boolean | undefined;
    /** Number of elements of a list. */
    readonly length?: number | undefined;
}

/** Options of a verification. */
export interface VerifyOptions extends CallOptions, Policy, OutputPolicies {
    /** Inputs by name, whose first dimension is the cases. Default: the daemon generates them. */
    readonly cases?: Readonly<Record<string, Tensor>> | undefined;
    /** Number of cases that the daemon generates; default 100,000. */
    readonly count?: number | undefined;
    readonly seed?: number | bigint | undefined;
    readonly domains?: Readonly<Record<string, Domain>> | undefined;
    /** What it means if a function has no result. */
    readonly outcomePolicy?: "both_or_neither" | "reference_defines" | "result_required" | undefined;
    /** How the subject must end in all cases, such as `unreachable`. */
    readonly expectedOutcome?: string | undefined;
    /** Limits of a case. */
    readonly caseTimeoutMs?: number | undefined;
    readonly fuel?: bigint | undefined;
    readonly memoryBytes?: bigint | undefined;
    readonly loopBudget?: bigint | undefined;
    readonly maxMismatches?: number | undefined;
    readonly maxCounterexamples?: number | undefined;
    readonly skipShrinking?: boolean | undefined;
    readonly checkDeterminism?: boolean | undefined;
    /** Where functions in Python run generated cases first. */
    readonly device?: "cpu" | "cuda" | undefined;
    /** Called after each chunk of cases with the cases done and failed. */
    readonly onProgress?: ((done: number, failed: number) => void) | undefined;
}

/** The name of an output that is given without one. */
const SINGLE = "output";
const CHUNK_BYTES = 4 << 20;

type Header = Init<typeof VerifyHeaderSchema>;
type Request = Init<typeof VerifyRequestSchema>;

function wirePolicy(policy: Policy): Init<typeof ComparisonPolicySchema> {
    const { atol, rtol, maxUlps, maxNorm } = policy;
    const tolerances: Init<typeof ToleranceSchema>[] = [];
    if (policy.exact) tolerances.push({ rule: { case: "exact", value: {} } });
    if (atol !== undefined || rtol !== undefined) tolerances.push({ rule: { case: "close", value: { atol: atol ?? 0, rtol: rtol ?? 0 } } });
    if (maxUlps !== undefined) tolerances.push({ rule: { case: "ulp", value: { maxDistance: BigInt(maxUlps) } } });
    if (maxNorm !== undefined) tolerances.push({ rule: { case: "maxNorm", value: { rtol: maxNorm } } });
    const nan = { true: NanPolicy.EQUAL, false: NanPolicy.FORBIDDEN, bits: NanPolicy.SAME_BITS };
    return {
        tolerances,
        combination: choice("require", ToleranceCombination, policy.require),
        nan: nan[`${policy.equalNan ?? false}`],
        infinity: policy.forbidInfinity ? InfinityPolicy.FORBIDDEN : InfinityPolicy.EQUAL,
        distinguishZeroSign: policy.signedZero ?? false,
        shape: policy.ignoreShape ? ShapePolicy.SAME_ELEMENT_COUNT : ShapePolicy.EQUAL,
        order: policy.anyOrder ? ElementOrder.ANY : ElementOrder.FIXED,
    };
}

function wirePolicies({ policies = {} }: OutputPolicies): Record<string, Init<typeof ComparisonPolicySchema>> {
    return Object.fromEntries(Object.entries(policies).map(([name, policy]) => [name, wirePolicy(policy)]));
}

function byName(compared: Compared): ReturnType<typeof tensorInput>[] {
    const isSingle = compared instanceof Tensor || typeof compared["handle"] === "string";
    const tensors = isSingle ? { [SINGLE]: compared as Tensor | ResidentTensor } : (compared as Record<string, Tensor | ResidentTensor>);
    return Object.entries(tensors).map(([name, tensor]) => tensorInput(name, tensor));
}

export function compare(caller: Caller, actual: Compared, expected: Compared, options: CompareOptions): Promise<CompareOutputsResponse> {
    const request = {
        actual: byName(actual),
        expected: byName(expected),
        policy: wirePolicy(options),
        outputPolicies: wirePolicies(options),
        rowVerdicts: options.rowVerdicts ?? false,
        ...(options.maxMismatches === undefined ? {} : { maxMismatches: options.maxMismatches }),
    };
    return caller.call(VerifyService.method.compareOutputs, request, caller.context(options));
}

function wireWasm(wasm: Wasm): Init<typeof WasmFunctionSchema> {
    const params = (wasm.params ?? []).map(({ name, dtype, kind, length, addressOnly }) => ({
        name,
        dtype: wireDtype(dtype),
        kind: choice("kind", WasmParamKind, kind),
        length: length ?? 0,
        addressOnly: addressOnly ?? false,
    }));
    const results = (wasm.results ?? []).map(({ name, dtype }) => ({ name, dtype: wireDtype(dtype) }));
    return { module: wasm.module, function: wasm.function ?? "", params, results, shareInstance: wasm.shareInstance ?? false };
}

function wireSubject(side: Side): NonNullable<Header["subject"]> {
    if (typeof side === "string" || "source" in side) return { case: "kernel", value: wireProgram(side) };
    if ("module" in side) return { case: "wasm", value: wireWasm(side) };
    return { case: "givenOutputs", value: {} };
}

function wireReference(side: Side): NonNullable<Header["reference"]> {
    if (typeof side === "string" || "source" in side) return { case: "referenceKernel", value: wireProgram(side) };
    if ("module" in side) return { case: "referenceWasm", value: wireWasm(side) };
    return { case: "expectedOutputs", value: {} };
}

function wireDomain({ min, max, allowNan, allowInfinity, length }: Domain): Init<typeof InputDomainSchema> {
    return {
        allowNan: allowNan ?? false,
        allowInfinity: allowInfinity ?? false,
        ...(min === undefined ? {} : { lower: typeof min === "bigint" ? { case: "minInteger", value: min } : { case: "min", value: min } }),
        ...(max === undefined ? {} : { upper: typeof max === "bigint" ? { case: "maxInteger", value: max } : { case: "max", value: max } }),
        ...(length === undefined ? {} : { length }),
    };
}

const DEFAULT_COUNT = 100_000;

function wireHeader(subject: Side, reference: Side, options: VerifyOptions, isGenerated: boolean): Header {
    const domains = Object.entries(options.domains ?? {}).map(([name, domain]) => [name, wireDomain(domain)]);
    const { caseTimeoutMs, fuel, memoryBytes, loopBudget, maxMismatches, maxCounterexamples } = options;
    return {
        subject: wireSubject(subject),
        reference: wireReference(reference),
        policy: wirePolicy(options),
        outputPolicies: wirePolicies(options),
        limits: {
            ...(caseTimeoutMs === undefined ? {} : { timeout: durationFromMs(caseTimeoutMs) }),
            ...(fuel === undefined ? {} : { fuel }),
            ...(memoryBytes === undefined ? {} : { memoryBytes }),
            ...(loopBudget === undefined ? {} : { loopBudget }),
        },
        outcomePolicy: choice("outcomePolicy", OutcomePolicy, options.outcomePolicy),
        expectedOutcome: options.expectedOutcome ?? "",
        skipShrinking: options.skipShrinking ?? false,
        checkDeterminism: options.checkDeterminism ?? false,
        device: choice("device", KernelDevice, options.device),
        ...(maxMismatches === undefined ? {} : { maxMismatches }),
        ...(maxCounterexamples === undefined ? {} : { maxCounterexamples }),
        ...(isGenerated
            ? {
                  generator: {
                      caseCount: BigInt(options.count ?? DEFAULT_COUNT),
                      seed: BigInt(options.seed ?? 0),
                      domains: Object.fromEntries(domains),
                  },
              }
            : {}),
    };
}

/** Tensors of the cases, by the field of the message that has them. */
type Cases = Record<"actual" | "expected" | "inputs", Readonly<Record<string, Tensor>>>;

function outputsOf(side: Side): Readonly<Record<string, Tensor>> {
    return typeof side === "object" && "outputs" in side ? side.outputs : {};
}

/** Returns the number of cases in tensors; undefined if there are none, so that the daemon generates the cases. */
function caseCount(tensors: readonly Tensor[]): number | undefined {
    const count = tensors[0]?.shape[0];
    const wrong = tensors.find(({ shape }) => shape[0] === undefined || shape[0] !== count);
    if (wrong !== undefined) throw new RangeError(`cases: expected ${count} in all tensors, got ${wrong.shape[0] ?? "a scalar"}`);
    return count;
}

function* requests(header: Header, cases: Cases, count: number): Generator<Request, void, undefined> {
    yield { part: { case: "header", value: header } };
    const tensors = Object.values(cases).flatMap((given) => Object.values(given));
    const caseBytes = tensors.reduce((sum, { data }) => sum + data.byteLength / count, 0);
    const step = Math.max(1, Math.floor(CHUNK_BYTES / Math.max(caseBytes, 1)));
    for (let start = 0; start < count; start += step) {
        yield { part: { case: "cases", value: chunk(cases, start, Math.min(start + step, count)) } };
    }
}

function chunk(cases: Cases, start: number, stop: number): Record<keyof Cases, ReturnType<typeof tensorInput>[]> {
    const part = (tensors: Readonly<Record<string, Tensor>>) =>
        Object.entries(tensors).map(([name, tensor]) => tensorInput(name, casesOf(tensor, start, stop)));
    return { actual: part(cases.actual), expected: part(cases.expected), inputs: part(cases.inputs) };
}

function casesOf({ dtype, shape: [count = 0, ...rest], data }: Tensor, start: number, stop: number): Tensor {
    const length = data.length / count;
    return new Tensor(dtype, [stop - start, ...rest], data.subarray(start * length, stop * length));
}

/** Verifies in one stream, which is retried until the first verdicts. */
export async function verify(caller: Caller, subject: Side, reference: Side, options: VerifyOptions): Promise<VerifySummary> {
    const cases: Cases = { actual: outputsOf(subject), expected: outputsOf(reference), inputs: options.cases ?? {} };
    const count = caseCount(Object.values(cases).flatMap((given) => Object.values(given)));
    const first = wireHeader(subject, reference, options, count === undefined);
    let done = 0;
    let failed = 0;
    let summary: VerifySummary | undefined;
    const open = () => iterate(requests(first, cases, count ?? 0));
    for await (const { part } of caller.retried(VerifyService.method.verify, open, caller.context(options))) {
        if (part.case === "summary") summary = part.value;
        if (part.case !== "cases") continue;
        done += Number(part.value.caseCount);
        failed += Number(part.value.failedCount);
        options.onProgress?.(done, failed);
    }
    if (summary === undefined) throw malformed("no summary");
    return summary;
}
