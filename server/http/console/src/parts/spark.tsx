/** Small pictures of numbers. The numbers themselves stand beside them as text. */

const WIDTH = 120;
const HEIGHT = 24;

/** A few values are not stretched over the whole width. */
const LEAST_POINTS = 30;

/** A line of values over time, from 0 to the largest; the newest is at the right. */
export function Spark({ values }: { values: number[] }) {
    const points = Math.max(LEAST_POINTS, values.length);
    const top = Math.max(...values, 0) || 1;
    const x = (index: number) => WIDTH - ((values.length - 1 - index) * WIDTH) / (points - 1);
    const y = (value: number) => HEIGHT - 1 - (value / top) * (HEIGHT - 2);
    const line = values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    const start = values.length ? x(0).toFixed(1) : WIDTH;
    return (
        <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
            <polygon points={`${start},${HEIGHT} ${line} ${WIDTH},${HEIGHT}`} />
            <polyline points={line} />
        </svg>
    );
}

/** A bar for each value. */
export function Bars({ values }: { values: number[] }) {
    const top = Math.max(...values, 0) || 1;
    const width = WIDTH / Math.max(values.length, 1);
    return (
        <svg class="spark bars" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
            {values.map((value, index) => {
                const height = value > 0 ? Math.max(1, (value / top) * HEIGHT) : 0;
                return <rect key={index} x={index * width + width * 0.1} y={HEIGHT - height} width={width * 0.8} height={height} />;
            })}
        </svg>
    );
}

/** How much of a whole is used, and how much more is held. */
export function Meter({ used, held = used, limit, label }: { used: number; held?: number; limit: number; label: string }) {
    const share = (part: number) => Math.min(100, limit > 0 ? (100 * part) / limit : 0);
    return (
        <svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
            <rect class="whole" width="100" height="6" />
            <rect class="held" width={share(held)} height="6" />
            <rect class="used" width={share(used)} height="6" />
        </svg>
    );
}
