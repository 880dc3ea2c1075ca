/** The messages of the protocol that the page reads, as proto/accelerd/v1 describes them. */

import type { Long } from "./format";
import type { Tensor } from "./tensor";

export interface Latency {
    mean: string;
    p50: string;
    p99: string;
    max: string;
}

export interface Lane {
    name: string;
    queuedCount: Long;
    queuedBytes: Long;
    batchCount: Long;
    requestCount: Long;
    itemCount: Long;
    failedCount: Long;
    cancelledCount: Long;
    wait?: Latency;
    execute?: Latency;
    meanBatchRequests: number;
}

export interface Device {
    name: string;
    kind: string;
    product: string;
    computeCapability: string;
    state: string;
    computeUnitCount: number;
    memoryBytes: Long;
    pool?: { usedBytes: Long; reservedBytes: Long; peakBytes: Long; limitBytes: Long; allocationCount: Long };
}

export interface MemoryPlace {
    name: string;
    heldBytes: Long;
    limitBytes: Long;
    usedBytes: Long;
    residentBytes: Long;
    accounts: { kind: string; heldBytes: Long; limitBytes: Long; refusedCount: Long; evictedBytes: Long; usedBytes: Long }[];
}

export interface Stats {
    version: string;
    uptime: string;
    lanes: Lane[];
    devices: Device[];
    draining: boolean;
    sampleTime: string;
    memory: MemoryPlace[];
    kernels: { name: string; callCount: Long; total: string; device: string; movedBytes: Long }[];
    admission: { itemCount: Long; itemLimit: Long; sizeBytes: Long; limitBytes: Long; refusedCount: Long };
    cpuFallbacks: { lane: string; device: string; reason: string; requestCount: Long; itemCount: Long; sizeBytes: Long }[];
}

export interface Collection {
    name: string;
    dimensions: number;
    metric: string;
    storage: string;
    model: string;
    durable: boolean;
    pointCount: Long;
    tombstoneCount: Long;
    hostMemoryBytes: Long;
    deviceMemoryBytes: Long;
    device: string;
    createTime?: string;
    textField: string;
    readOnly: boolean;
    damage: string[];
    setAsideCount: Long;
}

export interface Value {
    stringValue?: string;
    intValue?: Long;
    doubleValue?: number | string;
    boolValue?: boolean;
}
export interface Payload {
    fields: Record<string, Value>;
}
export interface Hit {
    number?: string;
    uuid?: string;
    score: number | string;
    payload?: Payload;
}

export interface Model {
    name: string;
    dimensions: number;
    supportedDimensions: number[];
    vocabularySize: number;
    sizeBytes: Long;
    aliases: string[];
    architecture: string;
    maxTokens: number;
    pooling: string;
    normalize: boolean;
    promptNames: string[];
    acceptsText: boolean;
    precision: string;
    crossEncoder: boolean;
    cpuPrecision: string;
    digest: string;
}

export interface Diagnostic {
    class: string;
    message: string;
    line: number;
    column: number;
    start: number;
    end: number;
}
export interface OutlineItem {
    kind: string;
    name: string;
    start: number;
    end: number;
    line: number;
    endLine: number;
    parent?: number;
}
export interface Spans {
    starts: string;
    ends: string;
}

export interface ParseResponse {
    results: { diagnostic?: Diagnostic; text?: string; outline: OutlineItem[]; nodeCount: number; tokenCount: number }[];
    nodes?: Spans & { kinds: string; fields: string; parents: string; aux: string };
    names?: Spans;
    values?: Spans & { tags: string };
    extra: string;
    tokens?: Spans & { kinds: string };
}

export interface KernelParam {
    name: string;
    dims: number;
    elementSizeBytes: number;
    components: { name: string; dtype: string; offsetBytes: number }[];
}
export interface KernelDiagnostic {
    kernel: string;
    code: string;
    message: string;
    line: number;
    column: number;
}
export interface TranslatedKernel {
    name: string;
    gridDims: number;
    params: KernelParam[];
    bitExact: boolean;
    files: { name: string; content: string }[];
}
export interface Kernel {
    id: string;
    name: string;
    dialect: string;
    gridDims: number;
    params: KernelParam[];
    writtenArrays: string[];
    bitExact: boolean;
    sizeBytes: Long;
}
export interface KernelFault {
    kind: string;
    thread: Long;
    line: number;
    column: number;
    array: string;
    dimension: number;
    index: Long;
    extent: Long;
    variable: string;
}
export interface NamedTensor {
    name: string;
    value: Tensor;
}
export interface LaunchResponse {
    outputs: NamedTensor[];
    fault?: KernelFault;
    executionTime?: string;
    device: string;
}
export interface BenchmarkResponse {
    verdict: string;
    runTimes: string[];
    medianTime?: string;
    p10Time?: string;
    p90Time?: string;
    threadCount: Long;
    arrayBytes: Long;
    threadsPerSecond: number;
    bytesPerSecond: number;
    minTime?: string;
    fault?: KernelFault;
    device: string;
    mismatches: { output: string; run: number; failedCount: Long; index: Long; actual: number; expected: number }[];
}

export interface OutputComparison {
    name: string;
    verdict: string;
    actualDtype: string;
    expectedDtype: string;
    differences?: {
        elementCount: Long;
        failedCount: Long;
        ulpHistogram: Long[];
        maxAbsolute?: { value: number | string };
        maxRelative?: { value: number | string };
        maxUlps?: { value: Long };
        sufficient?: { atol: number | string; rtol: number | string; maxUlps: Long };
    };
}
export interface CaseResult {
    inputs: NamedTensor[];
    actual: NamedTensor[];
    expected: NamedTensor[];
    subjectOutcome: string;
    referenceOutcome: string;
}
export interface VerifySummary {
    passed: boolean;
    caseCount: Long;
    failedCount: Long;
    outputs: OutputComparison[];
    functions?: {
        subjectOutcomes: Record<string, Long>;
        referenceOutcomes: Record<string, Long>;
        outcomeMismatchCount: Long;
        counterexamples: { caseIndex: Long; found: CaseResult; shrunk?: CaseResult }[];
        gpuDecidedCount: Long;
    };
}
