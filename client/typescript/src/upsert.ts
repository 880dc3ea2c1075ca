// Writes of points: atomic in one message, or split into the messages of a stream.

import { create, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type BatchMethods, batches } from "./batches.js";
import { type CallOptions, type Caller, iterate } from "./caller.js";
import { AccelerdError, malformed } from "./errors.js";
import { SimilarityService, UpsertRequestSchema } from "./generated/accelerd/v1/similarity_pb.js";
import { TensorSchema } from "./generated/accelerd/v1/tensor_pb.js";
import type { Init } from "./init.js";
import { type Part, partsByBytes } from "./parts.js";
import { type Ids, type Payload, payloadColumns, PointIds } from "./payload.js";
import type { Batches } from "./resume.js";
import { type Rows, Tensor, toRows, toWire } from "./tensor.js";

/** Points to write: an id for each, and either their vectors or texts that the collection's model embeds. */
export type Points = {
    readonly ids: Ids;
    /** One for each point. */
    readonly payloads?: readonly Payload[] | undefined;
} & ({ readonly vectors: Rows; readonly texts?: undefined } | { readonly texts: readonly string[]; readonly vectors?: undefined });

/** Prompts of texts, instead of the collection's document prompt: a name of the model's, or the prompt itself. */
export interface Prompts {
    readonly promptName?: string | undefined;
    readonly prompt?: string | undefined;
}

export type UpsertOptions = CallOptions & Prompts;
/** A step of `upsertMany`. */
export type UpsertStep = Points & Prompts;

export type UpsertInit = Init<typeof SimilarityService.method.upsert.input>;

const { LengthDelimited } = WireType;
/** Size of the messages of a bulk write. The daemon processes a message only when it is complete. */
const BULK_BYTES = 2 << 20;
const ID_BYTES = 38;
const MAX_TEXTS = 16_384;
/** Intended duration of a part of a write that takes longer than its timeout: what is written by then stays. */
const PART_MS = 2_000;

const UPSERT_BATCHES: BatchMethods<
    (typeof SimilarityService.method.upsert)["input"],
    (typeof SimilarityService.method.upsert)["output"],
    (typeof SimilarityService.method.upsertStream)["input"],
    (typeof SimilarityService.method.upsertStream)["output"]
> = { stream: SimilarityService.method.upsertStream, unary: SimilarityService.method.upsert, field: "upsert", isOrdered: true, encode };

/** Serializes an UpsertStreamRequest. Vectors come first, where the daemon reads them without a copy. */
export function encode(sequence: number, { points, ...rest }: UpsertInit): readonly Uint8Array[] {
    const tail = toBinary(UpsertRequestSchema, create(UpsertRequestSchema, points?.case === "texts" ? { ...rest, points } : rest));
    const vectors = points?.case === "vectors" ? points.value : undefined;
    const data = vectors?.data ?? new Uint8Array();
    const head = new BinaryWriter();
    if (vectors !== undefined) {
        const shape = create(TensorSchema, { dtype: vectors.dtype ?? 0, shape: vectors.shape ?? [] });
        const tensor = new BinaryWriter().raw(toBinary(TensorSchema, shape)).tag(3, LengthDelimited).uint32(data.length).finish();
        head.tag(3, LengthDelimited)
            .uint32(tensor.length + data.length)
            .raw(tensor);
    }
    const prefix = head.finish();
    const start = new BinaryWriter().tag(1, WireType.Varint).uint64(sequence).tag(2, LengthDelimited);
    return [
        start
            .uint32(prefix.length + data.length + tail.length)
            .raw(prefix)
            .finish(),
        data,
        tail,
    ];
}

/** Validated points to write. */
class Write {
    readonly #ids: PointIds;
    readonly #rows: Tensor<"f32"> | undefined;
    readonly #texts: readonly string[];

    constructor(
        private readonly collection: string,
        private readonly points: UpsertStep,
    ) {
        const { ids, vectors, texts, payloads } = points;
        if ((vectors === undefined) === (texts === undefined)) {
            throw new RangeError(`points: expected either texts or vectors, got ${texts === undefined ? "neither" : "both"}`);
        }
        this.#ids = new PointIds(ids);
        this.#rows = vectors === undefined ? undefined : toRows(vectors, "vectors");
        this.#texts = texts ?? [];
        this.#check(vectors === undefined ? "texts" : "vectors", this.#rows?.shape[0] ?? this.#texts.length);
        if (payloads !== undefined) this.#check("payloads", payloads.length);
    }

    get count(): number {
        return this.#ids.length;
    }

    #check(what: string, count: number): void {
        if (count !== this.count) throw new RangeError(`${what}: expected ${this.count}, one for each id, got ${count}`);
    }

    checkUnique(): void {
        this.#ids.checkUnique();
    }

    request({ start, stop }: Part = { start: 0, stop: this.count }): UpsertInit {
        const { payloads, prompt, promptName } = this.points;
        return {
            collection: this.collection,
            ids: this.#ids.message(start, stop),
            points:
                this.#rows === undefined
                    ? { case: "texts", value: { values: this.#texts.slice(start, stop) } }
                    : this.#vectors(this.#rows, start, stop),
            promptName: promptName ?? "",
            ...(prompt === undefined ? {} : { prompt }),
            ...(payloads === undefined ? {} : { payloadColumns: payloadColumns(payloads.slice(start, stop), start) }),
        };
    }

    #vectors(
        { shape: [, dimensions = 0], data }: Tensor<"f32">,
        start: number,
        stop: number,
    ): NonNullable<UpsertInit["points"]> & { case: "vectors" } {
        const part = new Tensor("f32", [stop - start, dimensions], data.subarray(start * dimensions, stop * dimensions));
        return { case: "vectors", value: toWire(part) };
    }

    /** Bytes of the points without their payloads, at most. */
    get bytes(): number {
        return this.#sizes().reduce((sum, size) => sum + size, 0);
    }

    /** Splits the points into parts for a bulk write, which takes `durationMs` if that is known. */
    parts(durationMs = 0): Part[] {
        const rows = Math.ceil((this.count * PART_MS) / Math.max(durationMs, PART_MS));
        return partsByBytes(this.#sizes(), BULK_BYTES, Math.min(rows, MAX_TEXTS));
    }

    #sizes(): number[] {
        const dimensions = this.#rows?.shape[1];
        if (dimensions !== undefined) return new Array<number>(this.count).fill(4 * dimensions + ID_BYTES);
        return this.#texts.map((text) => 3 * text.length + ID_BYTES);
    }
}

export async function upsert(caller: Caller, collection: string, points: Points, options: UpsertOptions): Promise<number> {
    const write = new Write(collection, { ...points, promptName: options.promptName, prompt: options.prompt });
    if (write.count === 0) return 0;
    const context = caller.context(options);
    let durationMs: number | undefined;
    if (write.bytes <= caller.settings.maxMessageBytes) {
        try {
            const { insertedCount } = await caller.call(SimilarityService.method.upsert, write.request(), context);
            return Number(insertedCount);
        } catch (problem) {
            durationMs = estimatedMs(problem);
            const maySplit = durationMs !== undefined || (problem instanceof AccelerdError && problem.isTooLarge);
            if (!maySplit || write.count < 2) throw problem;
        }
    }
    write.checkUnique();
    const parts = write.parts(durationMs);
    let inserted = 0;
    let done = 0;
    try {
        for await (const outcome of batches(caller, UPSERT_BATCHES, requests(write, parts), context)) {
            if (outcome.error !== undefined) throw outcome.error;
            inserted += Number(outcome.value.insertedCount);
            const part = parts[outcome.sequence];
            done += part === undefined ? 0 : part.stop - part.start;
        }
    } catch (problem) {
        throw problem instanceof AccelerdError ? problem.withProgress(done, write.count, "points were written, and stay") : problem;
    }
    return inserted;
}

/** Makes each message when it is sent. */
function* requests(write: Write, parts: readonly Part[]): Generator<UpsertInit, void, undefined> {
    for (const part of parts) yield write.request(part);
}

/** Returns how long a call takes, if the daemon refused it because its timeout is too short for it alone. */
function estimatedMs(problem: unknown): number | undefined {
    if (!(problem instanceof AccelerdError) || problem.reason !== "WOULD_MISS_DEADLINE" || problem.retryDelayMs !== undefined)
        return undefined;
    const estimated = problem.metadata["estimated_ms"];
    return estimated === undefined ? undefined : Number(estimated);
}

/** A step whose messages are not all answered. */
interface Step {
    readonly messages: number;
    answered: number;
    inserted: number;
}

export async function* upsertMany(
    caller: Caller,
    collection: string,
    steps: Batches<UpsertStep>,
    options: CallOptions,
): AsyncGenerator<number, void, undefined> {
    /** The step of each message without a response, by sequence. */
    const stepOf = new Map<number, Step>();
    /** Steps whose result was not returned yet, in order. */
    const open: Step[] = [];
    const sent = stepRequests(collection, steps, stepOf, open);
    for await (const { sequence, value, error } of batches(caller, UPSERT_BATCHES, sent, caller.context(options, Infinity))) {
        if (error !== undefined) throw error;
        const step = stepOf.get(sequence);
        if (step === undefined) throw malformed(`unexpected sequence ${sequence}`);
        stepOf.delete(sequence);
        step.answered += 1;
        step.inserted += Number(value.insertedCount);
        yield* completed(open);
    }
    // Steps without points have no message.
    yield* completed(open);
}

async function* stepRequests(
    collection: string,
    steps: Batches<UpsertStep>,
    stepOf: Map<number, Step>,
    open: Step[],
): AsyncGenerator<UpsertInit, void, undefined> {
    let sequence = 0;
    for await (const points of iterate(steps)) {
        const write = new Write(collection, points);
        write.checkUnique();
        const parts = write.parts();
        const step = { messages: parts.length, answered: 0, inserted: 0 };
        open.push(step);
        for (const part of parts) {
            stepOf.set(sequence, step);
            sequence += 1;
            yield write.request(part);
        }
    }
}

function* completed(open: Step[]): Generator<number, void, undefined> {
    while (open[0] !== undefined && open[0].answered === open[0].messages) {
        yield open[0].inserted;
        open.shift();
    }
}
