/** Bytes and the columns of numbers in them. */

export function decode(text: string | undefined): Uint8Array<ArrayBuffer> {
    const binary = atob(text ?? "");
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
    return bytes;
}

export function encode(bytes: Uint8Array): string {
    const parts: string[] = [];
    for (let at = 0; at < bytes.length; at += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(at, at + 0x8000)));
    return btoa(parts.join(""));
}

export function u32s(text: string | undefined): Uint32Array {
    return new Uint32Array(decode(text).buffer);
}

export function utf8(text: string): Uint8Array {
    return new TextEncoder().encode(text);
}

/** Positions in UTF-8, which the daemon states, in a text of JavaScript. */
export class Positions {
    private readonly bytes: Uint8Array;
    private readonly decoder = new TextDecoder();
    /** The index of the character at each multiple of `STEP` bytes. */
    private readonly marks: number[] = [0];
    private static readonly STEP = 4096;

    constructor(readonly text: string) {
        this.bytes = utf8(text);
    }

    get length(): number {
        return this.bytes.length;
    }

    slice(start: number, end: number): string {
        return this.decoder.decode(this.bytes.subarray(start, end));
    }

    /** The index of the character that starts at a byte. */
    index(byte: number): number {
        const step = Positions.STEP;
        const mark = Math.min(Math.floor(byte / step), Math.ceil(this.bytes.length / step));
        while (this.marks.length <= mark) {
            const last = this.marks.length - 1;
            this.marks.push(this.marks[last]! + this.units(last * step, (last + 1) * step));
        }
        return this.marks[mark]! + this.units(mark * step, byte);
    }

    /** The number of UTF-16 units of characters that start in a range. */
    private units(start: number, end: number): number {
        let units = 0;
        for (let at = start; at < end && at < this.bytes.length; at += 1) {
            const byte = this.bytes[at]!;
            if ((byte & 0xc0) !== 0x80) units += byte >= 0xf0 ? 2 : 1;
        }
        return units;
    }
}
