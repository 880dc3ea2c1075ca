/** The loaded models, and the tokens that one makes of a text. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call } from "../api";
import { Positions } from "../columns";
import { bytes, count, words } from "../format";
import { Outcome, useCall } from "../parts/call";
import { Facts, Field, Section, Table } from "../parts/layout";
import { Rows } from "../parts/rows";
import type { Model } from "../wire";
import { Choice } from "./kernels";

export function Models() {
    const list = useCall(async (signal) => (await call<{ models: Model[] }>("EmbedService/ListModels", {}, signal)).models);
    useEffect(() => void list.start(), []);
    const models = list.state.value.value;
    return (
        <>
            <Section title="Loaded models">
                <div class="controls">
                    <button type="button" class="quiet" onClick={() => list.start()}>
                        Refresh
                    </button>
                </div>
                <Outcome of={list.state} busy="Reading…" hideTime />
                {models && (
                    <Table
                        label="Models"
                        columns={[
                            "Name",
                            "Kind",
                            "Architecture",
                            "#Dimensions",
                            "#Vocabulary",
                            "#Context",
                            "#Size",
                            "Pooling",
                            "GPU",
                            "CPU",
                            "Prompts",
                            "Aliases",
                            "Digest",
                        ]}
                        rows={models.map((model) => [
                            model.name,
                            model.crossEncoder ? "reranker" : "encoder",
                            model.architecture,
                            model.crossEncoder ? "—" : model.supportedDimensions.join(", "),
                            count(model.vocabularySize),
                            model.maxTokens ? count(model.maxTokens) : "unlimited",
                            bytes(model.sizeBytes),
                            model.crossEncoder ? "—" : `${words(model.pooling, "POOLING_")}${model.normalize ? ", normalised" : ""}`,
                            words(model.precision, "PRECISION_"),
                            words(model.cpuPrecision, "PRECISION_"),
                            model.promptNames.join(", ") || "—",
                            model.aliases.join(", ") || "—",
                            model.digest.slice(0, 12),
                        ])}
                    />
                )}
            </Section>
            {models && models.some((model) => model.acceptsText) && (
                <Tokenize names={models.filter((model) => model.acceptsText).map((model) => model.name)} />
            )}
        </>
    );
}

interface Tokens {
    ids: number[];
    texts: string[];
}

function Tokenize({ names }: { names: string[] }) {
    const name = useSignal(names[0]!);
    const text = useSignal("def parse_date(text): return datetime.strptime(text, FORMAT)");
    const tokenize = useCall(async (signal): Promise<Tokens> => {
        interface Response {
            tokens?: { ids: number[] };
            starts: number[];
            ends: number[];
            special: boolean[];
            specialTexts: Record<string, string>;
        }
        const request = { model: name.value, texts: { values: [text.value] }, withSpans: true };
        const { tokens, starts, ends, special, specialTexts } = await call<Response>("EmbedService/Tokenize", request, signal);
        const ids = tokens?.ids ?? [];
        const positions = new Positions(text.value);
        return {
            ids,
            texts: ids.map((id, at) => (special[at] ? (specialTexts[id] ?? "") : positions.slice(starts[at] ?? 0, ends[at] ?? 0))),
        };
    });
    const found = tokenize.state.value.value;
    return (
        <Section title="Tokens of a text">
            <form
                class="controls"
                aria-label="Tokenize"
                onSubmit={(event) => {
                    event.preventDefault();
                    void tokenize.start();
                }}
            >
                <Choice label="Model" of={name} among={names.map((one) => [one, one])} />
                <Field label="Text">
                    {(id) => (
                        <input id={id} class="wide" value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
                    )}
                </Field>
                <button type="submit" disabled={tokenize.state.value.pending}>
                    Tokenize
                </button>
            </form>
            <Outcome of={tokenize.state} busy="Tokenizing…" />
            {found && (
                <>
                    <Facts of={[["Tokens", count(found.ids.length)]]} />
                    <Rows
                        label="Tokens"
                        role="list"
                        height={22}
                        count={found.ids.length}
                        class="elements"
                        empty="The text has no tokens."
                        render={(index) => (
                            <>
                                <span class="rank">{index}</span>
                                <span class="score">{found.ids[index]}</span>
                                <span class="kind">{found.texts[index]!.replaceAll("\n", "⏎") || "(empty)"}</span>
                            </>
                        )}
                    />
                </>
            )}
        </Section>
    );
}
