import { useId } from "react";
import css from "@/ui/Plot.module.css";

/** One colour of the design: what is happening, or a kind of thing. */
type PlotTone = "ok" | "bad" | "idle" | "tool" | "model" | "child" | "approval";

export interface Series {
  readonly name: string;
  readonly tone: PlotTone;
  /** One for each time; null is nothing to draw. */
  readonly values: readonly (number | null)[];
}

interface Props {
  title: string;
  /** What all of it comes to. */
  sum: string;
  kind: "bars" | "lines";
  /** When each time began. */
  at: readonly string[];
  by: "hour" | "day";
  series: readonly Series[];
  show(value: number): string;
}

const HEIGHT = 100;
/** So wide is one time in the drawing, which is stretched to the width there is. */
const STEP = 10;

/** Amounts over time: drawn, and as a table for who cannot see that or wants the numbers. */
export function Plot({ title, sum, kind, at, by, series, show }: Props) {
  const id = useId();
  const tops = at.map((_, i) =>
    kind === "bars"
      ? series.reduce((height, { values }) => height + (values[i] ?? 0), 0)
      : Math.max(0, ...series.map(({ values }) => values[i] ?? 0)),
  );
  const most = roundUp(Math.max(0, ...tops));
  const scale = (value: number) => (HEIGHT * value) / most;
  const words = (i: number) =>
    [moment(at[i] ?? "", by), ...series.map(({ name, values }) => `${name}: ${shown(values[i] ?? null, show)}`)].join(
      "\n",
    );
  return (
    <figure className={css.plot} aria-labelledby={id}>
      <figcaption id={id}>
        <strong>{title}</strong> <span className="faint num">{sum}</span>
      </figcaption>
      <div className={css.area}>
        <div className={css.axis} aria-hidden="true">
          <span>{show(most)}</span>
          <span>{show(0)}</span>
        </div>
        <svg
          className={css.drawing}
          viewBox={`0 0 ${STEP * at.length} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${title} by ${by}: ${sum}. The numbers are in the table below.`}
        >
          <line className={css.half} x1={0} x2={STEP * at.length} y1={HEIGHT / 2} y2={HEIGHT / 2} />
          {kind === "bars" ? (
            <Bars series={series} count={at.length} scale={scale} />
          ) : (
            <Lines series={series} scale={scale} />
          )}
          {at.map((time, i) => (
            <rect key={time} className={css.reach} x={STEP * i} y={0} width={STEP} height={HEIGHT}>
              <title>{words(i)}</title>
            </rect>
          ))}
        </svg>
        <div className={css.times} aria-hidden="true">
          <span>{moment(at[0] ?? "", by)}</span>
          <span>{moment(at.at(-1) ?? "", by)}</span>
        </div>
      </div>
      {series.length > 1 && (
        <ul className={css.legend} aria-hidden="true">
          {series.map(({ name, tone }) => (
            <li key={name} data-tone={tone}>
              {name}
            </li>
          ))}
        </ul>
      )}
      <details className={css.numbers}>
        <summary>As a table</summary>
        <div className={css.scroll} tabIndex={0} role="region" aria-label={`${title} as a table`}>
          <table>
            <thead>
              <tr>
                <th scope="col">{by === "hour" ? "Hour" : "Day (UTC)"}</th>
                {series.map(({ name }) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {at.map((time, i) => (
                <tr key={time}>
                  <th scope="row">{moment(time, by)}</th>
                  {series.map(({ name, values }) => (
                    <td key={name} className="num">
                      {shown(values[i] ?? null, show)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

interface Drawn {
  series: readonly Series[];
  scale(value: number): number;
}

/** Those of one time stand on each other. */
function Bars({ series, count, scale }: Drawn & { count: number }) {
  const heights = new Array<number>(count).fill(0);
  return (
    <>
      {series.map(({ name, tone, values }) => (
        <g key={name} data-tone={tone} className={css.bars}>
          {values.map((value, i) => {
            if (!value) return null;
            const height = scale(value);
            heights[i] = (heights[i] ?? 0) + height;
            return <rect key={i} x={STEP * i + 1} y={HEIGHT - (heights[i] ?? 0)} width={STEP - 2} height={height} />;
          })}
        </g>
      ))}
    </>
  );
}

/** A time without a value breaks the line; one that stands alone is a short stroke. */
function Lines({ series, scale }: Drawn) {
  return (
    <>
      {series.map(({ name, tone, values }) => {
        let way = "";
        values.forEach((value, i) => {
          if (value === null) return;
          const [x, y] = [STEP * i, HEIGHT - scale(value)];
          const goesOn = i > 0 && values[i - 1] !== null && values[i - 1] !== undefined;
          way += `${goesOn ? "L" : "M"}${x + 1} ${y}L${x + STEP - 1} ${y}`;
        });
        return <path key={name} data-tone={tone} className={css.line} d={way} />;
      })}
    </>
  );
}

/** The end of an axis: 1, 2 or 5 and zeros, so that it reads well. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((each) => each * power >= value) ?? 10) * power;
}

function shown(value: number | null, show: (value: number) => string): string {
  return value === null ? "–" : show(value);
}

/** Hours as the clock here has them; days as the gateway counts them, in UTC. */
function moment(ts: string, by: "hour" | "day"): string {
  const time = new Date(ts);
  return by === "hour"
    ? time.toLocaleString([], { weekday: "short", hour: "2-digit", minute: "2-digit" })
    : time.toLocaleDateString([], { day: "numeric", month: "short", timeZone: "UTC" });
}
