/** Devices, lanes, batches, latencies and memory, as they change. */

import { bytes, count, percent, rate, seconds, span, time, words } from "../format";
import { Failed } from "../parts/call";
import { Section, Table } from "../parts/layout";
import { Meter, Spark } from "../parts/spark";
import { lost, rates, samples } from "../watch";
import type { Stats } from "../wire";

/** The sum of a counter of all lanes. */
function total(stats: Stats, counter: "requestCount" | "itemCount" | "batchCount" | "failedCount" | "queuedCount"): number {
    return stats.lanes.reduce((sum, lane) => sum + Number(lane[counter]), 0);
}

export function Overview() {
    const all = samples.value;
    const last = all.at(-1);
    if (!last) return lost.value ? <Failed failure={lost.value} /> : <p class="empty">Waiting for the first sample.</p>;
    return (
        <>
            <Failed failure={lost.value} />
            <Readouts all={all} last={last} />
            <Devices last={last} />
            <Lanes all={all} last={last} />
            <Memory last={last} />
            <KernelTimes last={last} />
            <Fallbacks last={last} />
        </>
    );
}

function Readout({ name, value, note, values }: { name: string; value: string; note: string; values: number[] }) {
    return (
        <div class="readout">
            <dt>{name}</dt>
            <dd>
                <span class="value">{value}</span>
                <Spark values={values} />
                <span class="note">{note}</span>
            </dd>
        </div>
    );
}

function Readouts({ all, last }: { all: Stats[]; last: Stats }) {
    const requests = rates(all, (stats) => total(stats, "requestCount"));
    const items = rates(all, (stats) => total(stats, "itemCount"));
    const queued = all.map((stats) => total(stats, "queuedCount"));
    const admitted = all.map((stats) => Number(stats.admission.sizeBytes));
    const host = all.map((stats) => Number(stats.memory[0]?.usedBytes ?? 0));
    const place = last.memory[0];
    return (
        <dl class="readouts">
            <Readout
                name="Requests per second"
                value={rate(requests.at(-1) ?? 0)}
                values={requests}
                note={`${count(total(last, "requestCount"))} since the start`}
            />
            <Readout
                name="Items per second"
                value={rate(items.at(-1) ?? 0)}
                values={items}
                note={`${count(total(last, "failedCount"))} requests failed`}
            />
            <Readout
                name="Queued requests"
                value={count(queued.at(-1))}
                values={queued}
                note={`${count(last.admission.refusedCount)} refused since the start`}
            />
            <Readout
                name="In flight"
                value={bytes(last.admission.sizeBytes)}
                values={admitted}
                note={`${count(last.admission.itemCount)} of ${rate(Number(last.admission.itemLimit))} items`}
            />
            <Readout
                name="Host memory in use"
                value={bytes(place?.usedBytes)}
                values={host}
                note={`${percent(Number(place?.usedBytes), Number(place?.limitBytes))} of ${bytes(place?.limitBytes)}`}
            />
        </dl>
    );
}

function Devices({ last }: { last: Stats }) {
    const rows = last.devices.map((device) => [
        device.name,
        device.product,
        <span class={device.state === "DEVICE_STATE_READY" ? "good" : "bad"}>{words(device.state, "DEVICE_STATE_")}</span>,
        device.computeCapability || "—",
        count(device.computeUnitCount),
        bytes(device.memoryBytes),
        device.pool ? bytes(device.pool.usedBytes) : "—",
        device.pool ? bytes(device.pool.peakBytes) : "—",
        device.pool ? (
            <Meter
                label={`pool of ${device.name}`}
                used={Number(device.pool.usedBytes)}
                held={Number(device.pool.reservedBytes)}
                limit={Number(device.pool.limitBytes) || Number(device.memoryBytes)}
            />
        ) : (
            "—"
        ),
    ]);
    return (
        <Section title="Devices">
            <Table
                label="Devices"
                rows={rows}
                columns={["Device", "Product", "State", "Compute", "#Units", "#Memory", "#Pool in use", "#Peak", "Pool"]}
            />
        </Section>
    );
}

function Lanes({ all, last }: { all: Stats[]; last: Stats }) {
    const rows = last.lanes.map((lane) => {
        const requests = rates(all, (stats) => Number(stats.lanes.find((one) => one.name === lane.name)?.requestCount ?? 0));
        const ran = Number(lane.requestCount) > 0;
        const times = (latency: typeof lane.wait) =>
            [latency?.p50, latency?.p99, latency?.max].map((text) => (ran ? time(seconds(text)) : "—"));
        return [
            lane.name,
            rate(requests.at(-1) ?? 0),
            requests.some((one) => one > 0) && <Spark values={requests} />,
            count(lane.queuedCount),
            count(lane.requestCount),
            count(lane.itemCount),
            count(lane.batchCount),
            ran ? lane.meanBatchRequests.toFixed(1) : "—",
            ...times(lane.wait),
            ...times(lane.execute),
            count(lane.failedCount),
            count(lane.cancelledCount),
        ];
    });
    return (
        <Section
            title="Lanes"
            note="A lane is the queue of an operation. Wait is the time in the queue, run that of a batch, since the start."
        >
            <Table
                label="Lanes"
                rows={rows}
                columns={[
                    "Lane",
                    "#Req/s",
                    "Last 2 min",
                    "#Queued",
                    "#Requests",
                    "#Items",
                    "#Batches",
                    "#Per batch",
                    "#Wait p50",
                    "#p99",
                    "#max",
                    "#Run p50",
                    "#p99",
                    "#max",
                    "#Failed",
                    "#Cancelled",
                ]}
            />
        </Section>
    );
}

function Memory({ last }: { last: Stats }) {
    return (
        <Section title="Memory" note="The strong part of a bar is in use; the pale part is reserved in advance.">
            {last.memory.map((place) => (
                <div class="place" key={place.name}>
                    <h3>
                        {place.name}
                        <span class="note">
                            {`${bytes(place.usedBytes)} in use, ${bytes(place.heldBytes)} held, of ${bytes(place.limitBytes)}`}
                            {Number(place.residentBytes) > 0 && `; ${bytes(place.residentBytes)} resident`}
                        </span>
                    </h3>
                    <Table
                        label={`Memory of ${place.name}`}
                        columns={["Purpose", "Share", "#In use", "#Held", "#Limit", "#Refused", "#Evicted"]}
                        rows={place.accounts.map((account) => [
                            account.kind,
                            <Meter
                                label={`memory of ${account.kind}`}
                                used={Number(account.usedBytes)}
                                held={Number(account.heldBytes)}
                                limit={Number(account.limitBytes) || Number(place.limitBytes)}
                            />,
                            bytes(account.usedBytes),
                            bytes(account.heldBytes),
                            Number(account.limitBytes) ? bytes(account.limitBytes) : "—",
                            count(account.refusedCount),
                            bytes(account.evictedBytes),
                        ])}
                    />
                </div>
            ))}
        </Section>
    );
}

function KernelTimes({ last }: { last: Stats }) {
    const kernels = [...last.kernels].sort((a, b) => seconds(b.total) - seconds(a.total)).slice(0, 40);
    if (kernels.length === 0) return null;
    const rows = kernels.map((kernel) => [
        kernel.name,
        kernel.device,
        count(kernel.callCount),
        seconds(kernel.total) < 60 ? time(seconds(kernel.total)) : span(seconds(kernel.total)),
        time(seconds(kernel.total) / Math.max(1, Number(kernel.callCount))),
        Number(kernel.movedBytes) > 0 ? `${bytes(Number(kernel.movedBytes) / seconds(kernel.total))}/s` : "—",
    ]);
    return (
        <Section title="Kernels" note={`The ${rows.length} of ${last.kernels.length} that took longest.`}>
            <Table label="Kernels" rows={rows} columns={["Kernel", "Device", "#Launches", "#Total", "#Mean", "#Bandwidth"]} />
        </Section>
    );
}

function Fallbacks({ last }: { last: Stats }) {
    if (last.cpuFallbacks.length === 0) return null;
    return (
        <Section title="Fallbacks to the CPU">
            <Table
                label="Fallbacks"
                columns={["Lane", "Device", "Reason", "#Requests", "#Items", "#Bytes"]}
                rows={last.cpuFallbacks.map((one) => [
                    one.lane,
                    one.device,
                    one.reason.replaceAll("_", " "),
                    count(one.requestCount),
                    count(one.itemCount),
                    bytes(one.sizeBytes),
                ])}
            />
        </Section>
    );
}
