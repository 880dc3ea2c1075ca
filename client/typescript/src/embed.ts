// Embedding, reranking, tokens and models.

import { type BatchMethods, batches, type Outcome } from "./batches.js";
import { type CallOptions, type Caller, iterate } from "./caller.js";
import { choice } from "./choices.js";
import { type AccelerdError, malformed } from "./errors.js";
import {
    type EmbedRequestSchema,
    type EmbedResponse,
    EmbedService,
    LongInput,
    type Model,
    OutputType,
    Pooling,
    Precision,
    TruncationSide,
} from "./generated/accelerd/v1/embed_pb.js";
import type { Init } from "./init.js";
import { inParts, type Part, partsByBytes } from "./parts.js";
import type { Batches } from "./resume.js";
import { type Arrays, type Dtype, fromWire, fromWireAs, Tensor } from "./tensor.js";

/** The element types of vectors, by `output`. `binary` has a bit for each dimension, most significant first. */
interface OutputDtypes {
    f32: "f32";
    f16: "f16";
    bf16: "bf16";
    binary: "u8";
}

/** Element type of vectors. */
export type Output = keyof OutputDtypes | "int8";

/** Vectors of i8: a value is the integer times the scale of its vector. */
export interface Quantized {
    readonly values: Tensor<"i8">;
    readonly scales: Tensor<"f32">;
}

/** The vectors of an output type: [texts, dimensions]. */
export type Vectors<O extends Output> = O extends keyof OutputDtypes ? Tensor<OutputDtypes[O]> : Quantized;

/** Options of an embedding. The defaults are the model's. */
export interface EmbedOptions<O extends Output = Output> extends CallOptions {
    /** Name or alias of a loaded model; default `builtin`. */
    readonly model?: string | undefined;
    /** Element type of the vectors; default f32. */
    readonly output?: O | undefined;
    /** Leading dimensions to keep (Matryoshka embeddings). */
    readonly dimensions?: number | undefined;
    /** Whether vectors have unit length. */
    readonly normalize?: boolean | undefined;
    readonly pooling?: "cls" | "mean" | "max" | "last" | "weighted_mean" | "none" | undefined;
    /** Parts of texts in bytes of UTF-8 that have a vector each, instead of the texts: the index of the text, start and end. */
    readonly spans?: readonly { readonly text: number; readonly start: number; readonly end: number }[] | undefined;
    /** Name of a prompt of the model, which is prepended to each text. */
    readonly promptName?: string | undefined;
    /** The prompt itself; empty means none. */
    readonly prompt?: string | undefined;
    readonly truncationSide?: "left" | "right" | undefined;
    /** What happens to a text with more tokens than the limit. */
    readonly longInput?: "truncate" | "error" | "chunk" | undefined;
    /** Maximum tokens of a text. */
    readonly maxTokens?: number | undefined;
    /** Whether a GPU computes GELU by the error function instead of a faster approximation. */
    readonly exactGelu?: boolean | undefined;
}

/** The outcome of a batch of a stream: vectors or an error. */
export type EmbedOutcome<O extends Output> = Outcome<Vectors<O>>;

/** A document and its relevance. */
export interface Ranked {
    /** Index of the document in the call. */
    readonly index: number;
    readonly score: number;
}

/** Options of a reranking. */
export interface RerankOptions extends CallOptions {
    /** Name or alias of a loaded cross-encoder. */
    readonly model: string;
    /** Maximum number of results. */
    readonly topN?: number | undefined;
    /** Whether scores are the classifier's logits. */
    readonly rawScores?: boolean | undefined;
    /** Maximum tokens of a pair. */
    readonly maxTokens?: number | undefined;
}

/** Options of the load of a model. */
export interface LoadModelOptions extends CallOptions {
    readonly aliases?: readonly string[] | undefined;
    readonly precision?: "bf16" | "f16" | "f32" | undefined;
}

type Request = Init<typeof EmbedRequestSchema>;

const MAX_TEXTS = 16_384;
/** Room for the fields of a request besides its texts. */
const RESERVED = 64 << 10;
const TEXT_OVERHEAD = 11;

/** Returns everything of a request but its input. */
function common(options: EmbedOptions): Request {
    return {
        model: options.model ?? "",
        dimensions: options.dimensions ?? 0,
        pooling: choice("pooling", Pooling, options.pooling),
        promptName: options.promptName ?? "",
        truncationSide: choice("truncationSide", TruncationSide, options.truncationSide),
        longInput: choice("longInput", LongInput, options.longInput),
        maxTokens: options.maxTokens ?? 0,
        outputType: choice("output", OutputType, options.output),
        exactGelu: options.exactGelu ?? false,
        ...(options.normalize === undefined ? {} : { normalize: options.normalize }),
        ...(options.prompt === undefined ? {} : { prompt: options.prompt }),
    };
}

function request(texts: readonly string[], options: EmbedOptions, { start, stop }: Part): Request {
    const spans = (options.spans ?? []).filter(({ text }) => text >= start && text < stop);
    return {
        ...common(options),
        input: { case: "texts", value: { values: texts.slice(start, stop) } },
        spans: spans.map((span) => ({ ...span, text: span.text - start })),
    };
}

function readVectors<O extends Output>({ embeddings, scales }: EmbedResponse): Vectors<O> {
    const vectors =
        scales === undefined ? fromWire(embeddings) : { values: fromWireAs("i8", embeddings), scales: fromWireAs("f32", scales) };
    return vectors as Vectors<O>;
}

/** Upper bound of the bytes of a text in UTF-8, without encoding it. */
function maxUtf8Size(text: string): number {
    return 3 * text.length;
}

function checkTexts(texts: readonly string[], what: string): void {
    if (typeof texts === "string") throw new TypeError(`${what}: expected a list of texts, got a string`);
    texts.forEach((text, at) => {
        if (typeof text !== "string") throw new TypeError(`${what}[${at}]: expected a string, got ${typeof text}`);
    });
}

export async function embed<O extends Output>(caller: Caller, texts: readonly string[], options: EmbedOptions<O>): Promise<Vectors<O>> {
    checkTexts(texts, "texts");
    const context = caller.context(options);
    // No texts have the shape and type of one text, without its row.
    const given = texts.length === 0 ? [""] : texts;
    const prompt = TEXT_OVERHEAD + maxUtf8Size(options.prompt ?? "");
    const parts = partsByBytes(
        given.map((text) => maxUtf8Size(text) + prompt),
        caller.settings.maxMessageBytes - RESERVED,
        MAX_TEXTS,
    );
    const called = parts.filter((part) => options.spans === undefined || parts.length === 1 || request(given, options, part).spans?.length);
    const results = await inParts(called, "texts were embedded", async (part) =>
        readVectors<O>(await caller.call(EmbedService.method.embed, request(given, options, part), context)),
    );
    return joined(results, texts.length === 0);
}

/** Embeds token ids, such as those of `tokenize`. */
export async function embedTokens<O extends Output>(
    caller: Caller,
    tokens: readonly (readonly number[])[],
    options: EmbedOptions<O>,
): Promise<Vectors<O>> {
    const offsets = [0];
    for (const ids of tokens) offsets.push(offsets[offsets.length - 1]! + ids.length);
    const input = { case: "tokens" as const, value: { ids: tokens.flat(), offsets } };
    const message = { ...common(options), input, spans: [...(options.spans ?? [])] };
    return readVectors<O>(await caller.call(EmbedService.method.embed, message, caller.context(options)));
}

function joined<O extends Output>(results: readonly Vectors<O>[], isEmpty: boolean): Vectors<O> {
    const [first] = results;
    if (first === undefined) throw malformed("no vectors");
    if (results.length === 1 && !isEmpty) return first;
    if (first instanceof Tensor) return concatenated(results as unknown as Tensor[], isEmpty) as unknown as Vectors<O>;
    const parts = results as readonly Quantized[];
    const values = concatenated(
        parts.map((part) => part.values),
        isEmpty,
    );
    const scales = concatenated(
        parts.map((part) => part.scales),
        isEmpty,
    );
    return { values, scales } as unknown as Vectors<O>;
}

/** Concatenates tensors in their first dimension, or returns one of the same type without rows. */
function concatenated<D extends Dtype>(tensors: readonly Tensor<D>[], isEmpty: boolean): Tensor<D> {
    const [first] = tensors;
    if (first === undefined) throw malformed("no vectors");
    const rows = isEmpty ? 0 : tensors.reduce((sum, { shape }) => sum + (shape[0] ?? 0), 0);
    const kept = isEmpty ? [] : tensors;
    const length = kept.reduce((sum, { size }) => sum + size, 0);
    const data = new (first.data.constructor as new (length: number) => Arrays[D])(length);
    let at = 0;
    for (const { data: part } of kept) {
        (data as Uint8Array).set(part as Uint8Array, at);
        at += part.length;
    }
    return new Tensor(first.dtype, [rows, ...first.shape.slice(1)], data);
}

const EMBED_BATCHES: BatchMethods<
    (typeof EmbedService.method.embed)["input"],
    (typeof EmbedService.method.embed)["output"],
    (typeof EmbedService.method.embedStream)["input"],
    (typeof EmbedService.method.embedStream)["output"]
> = { stream: EmbedService.method.embedStream, unary: EmbedService.method.embed, field: "embed", isOrdered: false };

export async function* embedStream<O extends Output>(
    caller: Caller,
    texts: Batches<readonly string[]>,
    options: EmbedOptions<O>,
): AsyncGenerator<EmbedOutcome<O>, void, undefined> {
    const requests = map(texts, (batch) => {
        checkTexts(batch, "texts");
        return request(batch, options, { start: 0, stop: batch.length });
    });
    for await (const outcome of batches(caller, EMBED_BATCHES, requests, caller.context(options, Infinity))) {
        yield mapOutcome(outcome, readVectors<O>);
    }
}

/** Maps the items of either kind of iterable. */
export async function* map<T, U>(items: Batches<T>, convert: (item: T) => U): AsyncGenerator<U, void, undefined> {
    for await (const item of iterate(items)) yield convert(item);
}

/** Maps the value of an outcome. */
export function mapOutcome<T, U>(outcome: Outcome<T>, convert: (value: T) => U): Outcome<U> {
    if (outcome.error !== undefined) return outcome as { sequence: number; error: AccelerdError };
    return { sequence: outcome.sequence, value: convert(outcome.value) };
}

export async function rerank(caller: Caller, query: string, documents: readonly string[], options: RerankOptions): Promise<Ranked[]> {
    checkTexts(documents, "documents");
    const message = {
        model: options.model,
        query,
        documents: { values: [...documents] },
        topN: options.topN ?? 0,
        rawScores: options.rawScores ?? false,
        maxTokens: options.maxTokens ?? 0,
    };
    const { results } = await caller.call(EmbedService.method.rerank, message, caller.context(options));
    return results.map(({ index, score }) => ({ index, score }));
}

/** Returns the token ids of each text. */
export async function tokenize(
    caller: Caller,
    texts: readonly string[],
    options: CallOptions & { readonly model?: string | undefined },
): Promise<number[][]> {
    checkTexts(texts, "texts");
    const message = { model: options.model ?? "", texts: { values: [...texts] } };
    const { tokens } = await caller.call(EmbedService.method.tokenize, message, caller.context(options));
    return texts.map((_, at) => tokens?.ids.slice(tokens.offsets[at], tokens.offsets[at + 1]) ?? []);
}

export async function models(caller: Caller, options: CallOptions): Promise<Model[]> {
    return (await caller.call(EmbedService.method.listModels, {}, caller.context(options))).models;
}

export async function loadModel(caller: Caller, name: string, path: string, options: LoadModelOptions): Promise<Model> {
    const precision = choice("precision", Precision, options.precision);
    const message = { name, path, aliases: [...(options.aliases ?? [])], precision };
    const { model } = await caller.call(EmbedService.method.loadModel, message, caller.context(options));
    if (model === undefined) throw malformed("no model");
    return model;
}

export async function unloadModel(caller: Caller, name: string, options: CallOptions): Promise<void> {
    await caller.call(EmbedService.method.unloadModel, { name }, caller.context(options));
}
