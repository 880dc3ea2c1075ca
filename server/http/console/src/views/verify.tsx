/** Verification: a function against a reference, with generated cases, and the cases that fail. */

import { useSignal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { stream } from "../api";
import { encode } from "../columns";
import { bytes, count, number, words } from "../format";
import { Outcome, useCall } from "../parts/call";
import { Editor } from "../parts/editor";
import { Facts, Field, Section, Table } from "../parts/layout";
import { Bars } from "../parts/spark";
import { inline } from "../parts/tensor";
import type { CaseResult, NamedTensor, OutputComparison, VerifySummary } from "../wire";
import { Choice } from "./kernels";

const REFERENCE = `def clamp(x: float, low: float, high: float) -> float:
    if low > high:
        raise ValueError("low exceeds high")
    return min(max(x, low), high)
`;
const SUBJECT = `def clamp(x: float, low: float, high: float) -> float:
    if x < low:
        return low
    if x > high:
        return high
    return x
`;

const kept = { reference: undefined as Signal<string> | undefined, subject: undefined as Signal<string> | undefined };

export function Verify() {
    const ownReference = useSignal(REFERENCE);
    const ownSubject = useSignal(SUBJECT);
    const reference = (kept.reference ??= ownReference);
    const subject = (kept.subject ??= ownSubject);
    const wasm = useSignal<File | undefined>(undefined);
    const cases = useSignal("10000");
    const seed = useSignal("1");
    const domains = useSignal("");
    const rtol = useSignal("");
    const atol = useSignal("");
    const device = useSignal("KERNEL_DEVICE_CPU");
    const verify = useCall(async (signal): Promise<VerifySummary> => {
        const close = { ...(atol.value && { atol: Number(atol.value) }), ...(rtol.value && { rtol: Number(rtol.value) }) };
        const header = {
            ...(wasm.value
                ? { wasm: { module: encode(new Uint8Array(await wasm.value.arrayBuffer())) } }
                : { kernel: { source: subject.value } }),
            referenceKernel: { source: reference.value },
            device: device.value,
            generator: { caseCount: cases.value, seed: seed.value, domains: inputDomains(domains.value) },
            ...(Object.keys(close).length > 0 && { policy: { tolerances: [{ close }] } }),
        };
        let summary: VerifySummary | undefined;
        for await (const part of stream<{ summary?: VerifySummary }>("VerifyService/Verify", [{ header }], signal))
            summary = part.summary ?? summary;
        if (!summary) throw new Error("the stream ended without a summary");
        return summary;
    });
    const found = verify.state.value.value;
    return (
        <>
            <div class="halves">
                <Section title="Reference" note="In Python: what is right.">
                    <Editor label="Reference" text={reference} rows={12} onSubmit={() => void verify.start()} />
                </Section>
                <Section title="Subject" note="In Python, or a WebAssembly module.">
                    {wasm.value ? (
                        <p class="file">
                            {wasm.value.name}, {bytes(wasm.value.size)}{" "}
                            <button type="button" class="quiet" onClick={() => (wasm.value = undefined)}>
                                Use Python
                            </button>
                        </p>
                    ) : (
                        <Editor label="Subject" text={subject} rows={12} onSubmit={() => void verify.start()} />
                    )}
                    <Field label="WebAssembly module instead">
                        {(id) => (
                            <input
                                id={id}
                                type="file"
                                accept=".wasm,application/wasm"
                                onChange={(event) => (wasm.value = event.currentTarget.files?.[0])}
                            />
                        )}
                    </Field>
                </Section>
            </div>
            <Section title="Cases">
                <form
                    class="controls"
                    aria-label="Verify"
                    onSubmit={(event) => {
                        event.preventDefault();
                        void verify.start();
                    }}
                >
                    <Quantity label="Cases" of={cases} />
                    <Quantity label="Seed" of={seed} />
                    <Field label="Ranges of inputs" hint="x -1.0 1.0; n 0 100">
                        {(id) => (
                            <input
                                id={id}
                                class="code"
                                value={domains.value}
                                onInput={(event) => (domains.value = event.currentTarget.value)}
                            />
                        )}
                    </Field>
                    <Quantity label="Relative tolerance" of={rtol} />
                    <Quantity label="Absolute tolerance" of={atol} />
                    <Choice
                        label="On"
                        of={device}
                        among={[
                            ["KERNEL_DEVICE_CPU", "CPU"],
                            ["KERNEL_DEVICE_CUDA", "GPU"],
                        ]}
                    />
                    <button type="submit" disabled={verify.state.value.pending}>
                        Verify
                    </button>
                </form>
                <Outcome of={verify.state} busy="Verifying…" />
                {found && <Summary of={found} />}
            </Section>
        </>
    );
}

function Quantity({ label, of }: { label: string; of: Signal<string> }) {
    return (
        <Field label={label}>
            {(id) => (
                <input
                    id={id}
                    class="short"
                    inputMode="decimal"
                    value={of.value}
                    onInput={(event) => (of.value = event.currentTarget.value)}
                />
            )}
        </Field>
    );
}

/** Ranges as they are written: a name and two numbers each. A range of floating-point numbers has a point or an exponent. */
function inputDomains(text: string): Record<string, object> {
    const parts = text
        .split(";")
        .map((part) => part.trim())
        .filter(Boolean);
    return Object.fromEntries(
        parts.map((part) => {
            const [name = "", low = "", high = "", ...rest] = part.split(/\s+/);
            if (!high || rest.length > 0 || [low, high].some((one) => isNaN(+one))) throw new Error(`expected NAME MIN MAX, got ${part}`);
            const isFloating = /[.e]/i.test(low + high);
            return [name, isFloating ? { min: +low, max: +high } : { minInteger: low, maxInteger: high }];
        }),
    );
}

function Summary({ of }: { of: VerifySummary }) {
    const { functions } = of;
    return (
        <>
            <p class={`verdict ${of.passed ? "good" : "bad"}`} role="status">
                {of.passed ? "Equal" : "Different"}
                <span class="note">
                    {of.passed ? `in all ${count(of.caseCount)} cases` : `in ${count(of.failedCount)} of ${count(of.caseCount)} cases`}
                </span>
            </p>
            <Table
                label="Outputs"
                columns={[
                    "Output",
                    "Verdict",
                    "#Compared",
                    "#Differ",
                    "#Largest absolute",
                    "#Largest relative",
                    "#Largest in ULP",
                    "ULP",
                    "#Would pass with atol",
                    "#or rtol",
                ]}
                rows={of.outputs.map(output)}
            />
            {functions && (
                <Facts
                    of={[
                        ["The subject ended", outcomes(functions.subjectOutcomes)],
                        ["The reference ended", outcomes(functions.referenceOutcomes)],
                        ["Cases with different ends", count(functions.outcomeMismatchCount)],
                        ["Decided by a GPU", count(functions.gpuDecidedCount)],
                    ]}
                />
            )}
            {functions && functions.counterexamples.length > 0 && (
                <>
                    <h3>
                        Counterexamples<span class="note">the simplest inputs that were found to fail, and the first</span>
                    </h3>
                    <Table
                        label="Counterexamples"
                        columns={["Case", "Inputs", "Subject", "Reference", "As found"]}
                        rows={functions.counterexamples.map((one) => {
                            const best = one.shrunk ?? one.found;
                            return [
                                count(one.caseIndex),
                                values(best.inputs),
                                side(best, "subject"),
                                side(best, "reference"),
                                one.shrunk ? values(one.found.inputs) : "the same",
                            ];
                        })}
                    />
                </>
            )}
        </>
    );
}

function output(of: OutputComparison) {
    const { differences } = of;
    const passed = of.verdict === "OUTPUT_VERDICT_PASSED";
    const or = (value: number | string | undefined) => (value === undefined ? "—" : number(value));
    return [
        of.name,
        <span class={passed ? "good" : "bad"}>{words(of.verdict, "OUTPUT_VERDICT_")}</span>,
        count(differences?.elementCount),
        count(differences?.failedCount),
        or(differences?.maxAbsolute?.value),
        or(differences?.maxRelative?.value),
        differences?.maxUlps ? count(differences.maxUlps.value) : "—",
        differences && differences.ulpHistogram.length > 1 ? <Bars values={differences.ulpHistogram.map((n) => Math.log1p(+n))} /> : "—",
        or(differences?.sufficient?.atol),
        or(differences?.sufficient?.rtol),
    ];
}

function outcomes(of: Record<string, string | number>): string {
    return (
        Object.entries(of)
            .map(([name, cases]) => `${name.replaceAll("_", " ")} ${count(cases)}`)
            .join(", ") || "—"
    );
}

function values(of: NamedTensor[]) {
    return <span class="code">{of.map(({ name, value }) => `${name} = ${inline(value)}`).join("  ")}</span>;
}

function side(of: CaseResult, which: "subject" | "reference") {
    const [outcome, results] = which === "subject" ? [of.subjectOutcome, of.actual] : [of.referenceOutcome, of.expected];
    return results.length > 0 ? values(results) : <span class="bad">{outcome.replaceAll("_", " ")}</span>;
}
