import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Input, SentMessages } from "../src/resume.js";

/** Messages 0 to `count`, of which all are sent. */
function sent(isOrdered: boolean, count: number): SentMessages<number> {
    const messages = new SentMessages<number>(isOrdered);
    messages.begin();
    for (let at = 0; at < count; at += 1) messages.keep((sequence) => sequence);
    while (messages.take() !== undefined);
    return messages;
}

function resent(messages: SentMessages<number>): number[] {
    messages.begin();
    const again: number[] = [];
    for (let next = messages.take(); next !== undefined; next = messages.take()) again.push(next);
    return again;
}

describe("messages of a stream", () => {
    test("without a response are sent again", () => {
        const messages = sent(false, 4);
        assert.deepEqual([messages.answered(2), messages.answered(0)], [true, true]);
        assert.deepEqual(resent(messages), [1, 3]);
    });

    test("that are ordered are sent again from the first without a response on", () => {
        const messages = sent(true, 4);
        assert.deepEqual([messages.answered(0), messages.answered(2)], [true, true]);
        assert.deepEqual(resent(messages), [1, 2, 3]);
        assert.deepEqual([messages.answered(1), messages.answered(2), messages.answered(3)], [true, false, true]);
        messages.end();
        assert.equal(messages.isComplete, true);
    });

    test("are complete when the input has ended and all are answered", () => {
        const messages = sent(false, 1);
        messages.end();
        assert.equal(messages.isComplete, false);
        messages.answered(0);
        assert.equal(messages.isComplete, true);
    });

    test("have no other responses", () => {
        assert.throws(() => sent(false, 1).answered(1), /unexpected sequence 1/);
        assert.throws(() => sent(true, 1).answered(7), /unexpected sequence 7/);
    });

    test("belong to the last call that began", () => {
        const messages = sent(false, 1);
        const [first, second] = [messages.begin(), messages.begin()];
        assert.deepEqual([messages.isCurrent(first), messages.isCurrent(second)], [false, true]);
    });
});

test("an item that an earlier call waits for is pulled once", async () => {
    let open = (): void => undefined;
    const gate = new Promise<void>((resolve) => (open = resolve));
    async function* items() {
        await gate;
        yield "a";
    }
    const input = new Input(items());
    const kept: string[] = [];
    const pulls = [input.pull((item) => kept.push(item)), input.pull((item) => kept.push(item))];
    open();
    assert.deepEqual(await Promise.all(pulls), [true, true]);
    assert.deepEqual(kept, ["a"]);
    assert.equal(await input.pull((item) => kept.push(item)), false);
});
