/** Collections: their list, and the search in one of them. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call } from "../api";
import { filter } from "../filter";
import { bytes, count, words } from "../format";
import { Failed, Outcome, useCall } from "../parts/call";
import { Facts, Field, Section } from "../parts/layout";
import { Rows } from "../parts/rows";
import type { Collection, Hit, Payload, Value } from "../wire";

export function Collections({ rest }: { rest: string }) {
    const name = decoded(rest);
    const list = useCall(
        async (signal) => (await call<{ collections: Collection[] }>("SimilarityService/ListCollections", {}, signal)).collections,
    );
    useEffect(() => void list.start(), []);
    const wanted = useSignal("");
    const all = list.state.value.value ?? [];
    const shown = useComputed(() => {
        const part = wanted.value.trim().toLowerCase();
        return (list.state.value.value ?? []).filter((one) => one.name.toLowerCase().includes(part));
    });
    const chosen = all.find((one) => one.name === name);
    return (
        <div class="split">
            <Section
                title="All collections"
                note={list.state.value.pending ? "Reading…" : `${count(shown.value.length)} of ${count(all.length)}`}
            >
                <div class="controls">
                    <Field label="Name contains">
                        {(id) => (
                            <input
                                id={id}
                                type="search"
                                value={wanted.value}
                                onInput={(event) => (wanted.value = event.currentTarget.value)}
                            />
                        )}
                    </Field>
                    <button type="button" class="quiet" onClick={() => list.start()}>
                        Refresh
                    </button>
                </div>
                <Failed failure={list.state.value.failure} />
                {list.state.value.value && (
                    <Rows
                        label="Collections"
                        role="listbox"
                        height={44}
                        count={shown.value.length}
                        class="tall"
                        empty={all.length ? "No name contains this." : "There are no collections."}
                        active={shown.value.findIndex((one) => one.name === name)}
                        onActive={(index) => (location.hash = `#/collections/${encodeURIComponent(shown.value[index]!.name)}`)}
                        render={(index) => {
                            const one = shown.value[index]!;
                            return (
                                <>
                                    <span class="main">{one.name}</span>
                                    <span class="side">{count(one.pointCount)}</span>
                                    <span class="note">
                                        {one.dimensions} dimensions, {words(one.metric, "METRIC_")}
                                        {one.model && `, ${one.model}`}
                                        {one.readOnly && ", read-only"}
                                    </span>
                                </>
                            );
                        }}
                    />
                )}
            </Section>
            {chosen ? (
                <Chosen key={chosen.name} of={chosen} />
            ) : (
                <p class="empty">
                    {name && !list.state.value.pending && list.state.value.value
                        ? `There is no collection ${name}.`
                        : "Choose a collection to search it."}
                </p>
            )}
        </div>
    );
}

/** The name in an address, which a person may have written. */
function decoded(text: string): string {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

type Way = "vector" | "hybrid" | "text" | "point" | "browse";

const WAYS: Record<Way, string> = {
    vector: "Nearest by vector",
    hybrid: "Vector and words",
    text: "Words only",
    point: "Nearest to a point",
    browse: "All points",
};

interface Found {
    hits: Hit[];
    /** Where the next page of all points begins. */
    cursor: string;
    words: Set<string>;
}

function Chosen({ of }: { of: Collection }) {
    const ways: Way[] = [of.textField && of.model && "hybrid", of.model && "vector", of.textField && "text", "point", "browse"].filter(
        Boolean,
    ) as Way[];
    const way = useSignal<Way>(ways[0]!);
    const query = useSignal("");
    const limit = useSignal("100");
    const condition = useSignal("");
    const active = useSignal(-1);
    const search = useCall(async (signal, before?: Found): Promise<Found> => {
        if (!before) active.value = -1;
        const chosen = filter(condition.value);
        if (way.value === "browse") return browse(of, chosen, Number(limit.value), signal, before);
        return {
            hits: await nearest(of, way.value, query.value, chosen, Number(limit.value), signal),
            cursor: "",
            words: terms(query.value),
        };
    });
    useEffect(() => search.clear(), [way.value]);
    const found = search.state.value.value;
    return (
        <Section title={of.name} note={`${count(of.pointCount)} points`}>
            <Facts
                of={[
                    ["Vectors", `${of.dimensions} dimensions, ${words(of.metric, "METRIC_")}, scanned as ${words(of.storage, "DTYPE_")}`],
                    ["Model", of.model || "none"],
                    ["Text index", of.textField ? `field ${of.textField}` : "none"],
                    ["Durability", of.durable ? "log" : "memory"],
                    ["Host memory", bytes(of.hostMemoryBytes)],
                    [of.device === "cpu" ? "Device" : `Memory on ${of.device}`, of.device === "cpu" ? "cpu" : bytes(of.deviceMemoryBytes)],
                    ["Tombstones", count(of.tombstoneCount)],
                    ["Created", of.createTime ? new Date(of.createTime).toLocaleString("en-GB") : "—"],
                ]}
            />
            {of.damage.map((one) => (
                <p class="bad" key={one}>
                    {one}
                </p>
            ))}
            <form
                class="controls"
                aria-label="Search"
                onSubmit={(event) => {
                    event.preventDefault();
                    void search.start();
                }}
            >
                <Field label="Rank">
                    {(id) => (
                        <select id={id} value={way.value} onChange={(event) => (way.value = event.currentTarget.value as Way)}>
                            {ways.map((one) => (
                                <option key={one} value={one}>
                                    {WAYS[one]}
                                </option>
                            ))}
                        </select>
                    )}
                </Field>
                {way.value !== "browse" && (
                    <Field label={way.value === "point" ? "Id of a point" : "Query"}>
                        {(id) => (
                            <input
                                id={id}
                                class="wide"
                                value={query.value}
                                onInput={(event) => (query.value = event.currentTarget.value)}
                            />
                        )}
                    </Field>
                )}
                <Field label="Filter">
                    {(id) => (
                        <input
                            id={id}
                            class="wide"
                            placeholder={'lang = "py", size >= 10'}
                            value={condition.value}
                            onInput={(event) => (condition.value = event.currentTarget.value)}
                        />
                    )}
                </Field>
                <Field label={way.value === "browse" ? "Per page" : "Hits"}>
                    {(id) => (
                        <input
                            id={id}
                            type="number"
                            min="1"
                            max="16384"
                            value={limit.value}
                            onInput={(event) => (limit.value = event.currentTarget.value)}
                        />
                    )}
                </Field>
                <button type="submit" disabled={search.state.value.pending}>
                    {way.value === "browse" ? "Show" : "Search"}
                </button>
            </form>
            <Outcome of={search.state} busy="Searching…" />
            {found && (
                <>
                    <h3>
                        {way.value === "browse" ? "Points" : "Hits"}{" "}
                        <span class="note">
                            {count(found.hits.length)}
                            {found.cursor && ", and more"}
                        </span>
                    </h3>
                    <div class={found.hits[active.value] ? "found chosen" : "found"}>
                        <Rows
                            label="Hits"
                            role="listbox"
                            height={58}
                            count={found.hits.length}
                            class="tall hits"
                            empty="Nothing was found."
                            active={active.value}
                            onActive={(index) => (active.value = index)}
                            render={(index) => (
                                <HitRow
                                    hit={found.hits[index]!}
                                    rank={index + 1}
                                    field={of.textField}
                                    words={found.words}
                                    isRanked={way.value !== "browse"}
                                />
                            )}
                        />
                        {found.hits[active.value] && <Whole hit={found.hits[active.value]!} words={found.words} />}
                    </div>
                    {found.cursor && (
                        <button type="button" class="quiet" disabled={search.state.value.pending} onClick={() => search.start(found)}>
                            More
                        </button>
                    )}
                </>
            )}
        </Section>
    );
}

async function nearest(
    of: Collection,
    way: Way,
    query: string,
    filter: object | undefined,
    limit: number,
    signal: AbortSignal,
): Promise<Hit[]> {
    const request: Record<string, unknown> = { collection: of.name, limit, includePayload: true, filter };
    if (way === "point") request["ids"] = /^\d+$/.test(query.trim()) ? { numbers: [query.trim()] } : { uuids: [query.trim()] };
    else request["texts"] = { values: [query] };
    if (way === "hybrid" || way === "text") request["hybrid"] = true;
    if (way === "text") request["textWeight"] = 1;
    const { results } = await call<{ results: { hits: Hit[] }[] }>("SimilarityService/Search", request, signal);
    return results[0]?.hits ?? [];
}

async function browse(of: Collection, filter: object | undefined, limit: number, signal: AbortSignal, before?: Found): Promise<Found> {
    const request = { collection: of.name, limit, includePayload: true, filter, cursor: before?.cursor ?? "" };
    interface Page {
        ids?: { numbers: string[]; uuids: string[] };
        payloads: Payload[];
        nextCursor: string;
    }
    const page = await call<Page>("SimilarityService/ScrollPoints", request, signal);
    const numbers = (page.ids?.numbers ?? []).map((number): Hit => ({ number, score: 0 }));
    const ids = numbers.length ? numbers : (page.ids?.uuids ?? []).map((uuid): Hit => ({ uuid, score: 0 }));
    const hits = ids.map((id, index): Hit => ({ ...id, payload: page.payloads[index] ?? { fields: {} } }));
    return { hits: [...(before?.hits ?? []), ...hits], cursor: page.nextCursor, words: new Set() };
}

const WORD = /[\p{L}\p{N}_]+/gu;

/** The words of a query as the text index compares them. */
function terms(query: string): Set<string> {
    return new Set(query.normalize("NFKC").toLowerCase().match(WORD) ?? []);
}

function shown(value: Value): string {
    return String(value.stringValue ?? value.intValue ?? value.doubleValue ?? value.boolValue ?? "");
}

/** The text of a point: the indexed field, or else its longest text. */
function textOf(fields: Record<string, Value>, field: string): [string, string] {
    if (fields[field]?.stringValue !== undefined) return [field, fields[field].stringValue];
    const texts = Object.entries(fields).filter(([, value]) => value.stringValue !== undefined);
    const longest = texts.sort(([, a], [, b]) => b.stringValue!.length - a.stringValue!.length)[0];
    return longest ? [longest[0], longest[1].stringValue!] : ["", ""];
}

/** A text with the words of the query marked. */
function Marked({ text, words }: { text: string; words: Set<string> }) {
    const parts = [];
    let end = 0;
    for (const found of text.matchAll(WORD)) {
        if (!words.has(found[0].normalize("NFKC").toLowerCase())) continue;
        parts.push(text.slice(end, found.index), <mark key={found.index}>{found[0]}</mark>);
        end = found.index + found[0].length;
    }
    return (
        <>
            {parts}
            {text.slice(end)}
        </>
    );
}

/** The part of a text around the longest word of the query. */
function excerpt(text: string, words: Set<string>): string {
    const flat = text.slice(0, 20_000).replaceAll(/\s+/g, " ");
    const found = [...flat.matchAll(WORD)].filter((one) => words.has(one[0].normalize("NFKC").toLowerCase()));
    const longest = found.reduce((best, one) => Math.max(best, one[0].length), 0);
    const at = found.find((one) => one[0].length === longest)?.index ?? 0;
    const start = at > 40 ? flat.indexOf(" ", at - 30) + 1 : 0;
    return (start ? "…" : "") + flat.slice(start, start + 240);
}

function HitRow({ hit, rank, field, words, isRanked }: { hit: Hit; rank: number; field: string; words: Set<string>; isRanked: boolean }) {
    const fields = hit.payload?.fields ?? {};
    const [name, text] = textOf(fields, field);
    const others = Object.entries(fields)
        .filter(([own]) => own !== name)
        .slice(0, 8);
    return (
        <>
            <span class="rank">{rank}</span>
            <span class="score">{isRanked ? Number(hit.score).toPrecision(4) : ""}</span>
            <span class="main">{text ? <Marked text={excerpt(text, words)} words={words} /> : <em>no text</em>}</span>
            <span class="note">
                {hit.number ?? hit.uuid}
                {others.map(([own, value]) => ` · ${own} ${shown(value).slice(0, 60)}`)}
            </span>
        </>
    );
}

function Whole({ hit, words }: { hit: Hit; words: Set<string> }) {
    const fields = Object.entries(hit.payload?.fields ?? {}).sort(([a], [b]) => a.localeCompare(b));
    return (
        <div class="whole" role="region" aria-label={`Point ${hit.number ?? hit.uuid}`} tabIndex={0}>
            <h3>Point {hit.number ?? hit.uuid}</h3>
            <dl class="facts">
                {fields.map(([name, value]) => (
                    <div key={name}>
                        <dt>{name}</dt>
                        <dd class={shown(value).includes("\n") ? "text code" : "text"}>
                            <Marked text={shown(value).slice(0, 100_000)} words={words} />
                        </dd>
                    </div>
                ))}
            </dl>
        </div>
    );
}
