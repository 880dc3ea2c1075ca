// The entry for Node: gRPC over HTTP/2, to the daemon's gRPC port or its Unix socket.

import { readFileSync } from "node:fs";
import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { connect as connectPlain, isIP, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from "node:tls";
import { createGrpcTransport, createNodeHttpClient, Http2SessionManager } from "@connectrpc/connect-node";
import { BaseClient, type ClientOptions } from "./client.js";
import { type Connection, Connections } from "./connections.js";
import { encodedStreams } from "./encoded_stream.js";
import { checkedToken, readTargets, type Target } from "./target.js";
import { systemClock } from "./timeout.js";

export * from "./index.js";

/** PEM text, or the path of a PEM file. */
export type Pem = string | Buffer;

/** Whom a client trusts over TLS, and its certificate. */
export interface Tls {
    /** Certificate authorities to trust instead of Node's list of public ones. */
    readonly ca?: Pem | undefined;
    /** Client certificate with its chain, and its private key, for daemons that verify their clients (mTLS). */
    readonly cert?: Pem | undefined;
    readonly key?: Pem | undefined;
    /** Name to expect in the daemon's certificate instead of the host of the target. */
    readonly serverName?: string | undefined;
}

/** Options of a client in Node. */
export interface NodeClientOptions extends ClientOptions {
    /** Default of targets with https://: the authorities of the file that the environment variable ACCELERD_TLS_CA names. */
    readonly tls?: Tls | undefined;
    /** Number of connections to each target, used round-robin; default 1. The daemon serves each connection on one thread. */
    readonly connections?: number | undefined;
}

const DEFAULT_TARGET = "localhost:7433";
const CONNECT_TIMEOUT_MS = 5_000;
/** Window of flow control for what a connection receives. HTTP/2's default of 64 KiB limits it where a round trip takes long. */
const WINDOW_BYTES = 8 << 20;
/** Above it Node refuses new calls; its default of 10 MiB is less than a message may have. */
const SESSION_MIB = 1 << 14;
/** A connection that was idle for longer is verified by a ping before its next call. */
const PINGS = { pingIntervalMs: 20_000, pingTimeoutMs: 10_000 };

/** A client of a daemon over one or more connections, which are opened by the first call. */
export class Client extends BaseClient {
    /**
     * Creates a client.
     *
     * `target` is host:port, http://host:port, https://host:port or unix:/path; or several of them, as a list or separated by commas,
     * between which calls take turns, without those that cannot be reached. It defaults to the environment variable ACCELERD_SERVER,
     * then to localhost:7433. ACCELERD_TOKEN is the default of `token`; an empty one means none.
     */
    constructor(target: string | readonly string[] = process.env["ACCELERD_SERVER"] || DEFAULT_TARGET, options: NodeClientOptions = {}) {
        const targets = readTargets(target).map((one) => (options.tls !== undefined && isPlain(one) ? overTls(one) : one));
        const count = options.connections ?? 1;
        if (!Number.isInteger(count) || count < 1) throw new RangeError(`connections: expected at least 1, got ${count}`);
        const token = checkedToken(options.token ?? process.env["ACCELERD_TOKEN"], targets, options.allowPlaintextToken ?? false);
        const ca = process.env["ACCELERD_TLS_CA"] || undefined;
        const tls = targets.some(({ scheme }) => scheme === "https") ? readTls(options.tls ?? { ca }) : {};
        const connections = Array.from({ length: count }, () => targets.map((one) => openConnection(one, tls)));
        super(new Connections(connections.flat(), systemClock, true), token, options);
    }
}

/** Whether a target names no scheme, so that `tls` decides. */
function isPlain(target: Target): boolean {
    return target.scheme === "http" && !target.text.startsWith("http://");
}

function overTls(target: Target): Target {
    return { ...target, scheme: "https", origin: target.origin.replace(/^http:/, "https:") };
}

/** Reads all files: those that cannot be read are an error of the caller, not of a call. */
function readTls({ ca, cert, key, serverName }: Tls): ConnectionOptions {
    if ((cert === undefined) !== (key === undefined)) {
        throw new RangeError(`tls: expected both cert and key, got ${cert === undefined ? "key without cert" : "cert without key"}`);
    }
    return {
        ...(ca === undefined ? {} : { ca: readPem("ca", ca, "CERTIFICATE") }),
        ...(cert === undefined ? {} : { cert: readPem("cert", cert, "CERTIFICATE") }),
        ...(key === undefined ? {} : { key: readPem("key", key, "PRIVATE KEY") }),
        ...(serverName === undefined ? {} : { servername: serverName }),
    };
}

function readPem(name: string, pem: Pem, label: string): string {
    const isText = typeof pem !== "string" || pem.includes("-----BEGIN");
    const text = isText ? pem.toString() : readFileSync(pem, "utf8");
    if (text.includes(`${label}-----`)) return text;
    throw new RangeError(`tls: ${name}: expected PEM with a ${label.toLowerCase()}${isText ? "" : ` in ${pem.toString()}`}`);
}

function openConnection(target: Target, tls: ConnectionOptions): Connection {
    const manager = new Sessions(target.origin, PINGS, {
        createConnection: () => openSocket(target, tls),
        settings: { initialWindowSize: WINDOW_BYTES },
        maxSessionMemory: SESSION_MIB,
    });
    // Bulk numbers compress slowly and hardly at all.
    const transport = createGrpcTransport({ baseUrl: target.origin, sessionManager: manager, acceptCompression: [] });
    const client = createNodeHttpClient({ httpVersion: "2", sessionProvider: () => manager });
    return { target: target.text, transport, openEncoded: encodedStreams(target.origin, client), close: () => manager.abort() };
}

/** Opens a socket, within a time of its own: an attempt to connect may hang for minutes. */
function openSocket(target: Target, tls: ConnectionOptions): Socket | TLSSocket {
    const { hostname, port, protocol } = new URL(target.origin);
    const host = hostname.replace(/^\[(.*)\]$/, "$1");
    const address = { host, port: Number(port) || (protocol === "https:" ? 443 : 80) };
    const name = isIP(host) === 0 ? { servername: host } : {};
    const socket =
        target.scheme === "unix"
            ? connectPlain({ path: target.path })
            : target.scheme === "https"
              ? connectTls({ ALPNProtocols: ["h2"], ...name, ...tls, ...address })
              : connectPlain({ ...address, noDelay: true });
    const timer = setTimeout(() => {
        const late = new Error(`no connection within ${CONNECT_TIMEOUT_MS / 1_000} s`);
        socket.destroy(Object.assign(late, { code: "ETIMEDOUT", syscall: "connect" }));
    }, CONNECT_TIMEOUT_MS);
    socket.once(target.scheme === "https" ? "secureConnect" : "connect", () => clearTimeout(timer));
    socket.once("close", () => clearTimeout(timer));
    return socket;
}

/** Sessions whose window is that of a stream: HTTP/2's settings have no window for a connection. */
class Sessions extends Http2SessionManager {
    readonly #widened = new WeakSet<ClientHttp2Session>();

    override async request(...request: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
        const stream = await super.request(...request);
        const { session } = stream;
        if (session !== undefined && "setLocalWindowSize" in session && !this.#widened.has(session as ClientHttp2Session)) {
            this.#widened.add(session as ClientHttp2Session);
            session.setLocalWindowSize(WINDOW_BYTES);
        }
        return stream;
    }
}
