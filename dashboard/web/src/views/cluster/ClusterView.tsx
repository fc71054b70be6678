import { useMemo } from "react";
import { agencies } from "@/agencies/agencyList";
import { useLoad } from "@/api/hooks";
import { getHealth, getStatus } from "@/api/installation";
import { asProblem, type Problem } from "@/api/problem";
import type { InstallationStatus, RayInUse } from "@/api/types";
import { useStore } from "@/live/store";
import { Link } from "@/router/router";
import { to } from "@/router/routes";
import { bytes, count, dateTime, number } from "@/text/format";
import { Loading } from "@/ui/Empty";
import { Failed } from "@/ui/Failed";
import { PageHead } from "@/ui/PageHead";
import css from "@/views/cluster/ClusterView.module.css";

const EVERY_MS = 3_000;
const THREADS_SHOWN = 30;
const TONES = { ready: "ok", starting: "wait", busy: "wait", silent: "bad" } as const;

interface ClusterNow {
  status: InstallationStatus;
  unready: Problem | null;
}

async function loadCluster(): Promise<ClusterNow> {
  const [status, unready] = await Promise.all([getStatus(), getHealth().then(() => null, asProblem)]);
  return { status, unready };
}

/** Where it runs: nodes, hosts and their loads, and which threads are awake. */
export default function ClusterView() {
  const { data, problem, reload } = useLoad("cluster", loadCluster, { everyMs: EVERY_MS });
  return (
    <>
      <PageHead title="Cluster">
        {data && (
          <span className="tag" data-tone={data.unready ? "bad" : "ok"} role="status">
            {data.unready ? "not ready" : "ready"}
          </span>
        )}
      </PageHead>
      <div className="page scroll">
        {data ? (
          <Overview {...data} />
        ) : problem ? (
          <Failed problem={problem} retry={() => void reload()} />
        ) : (
          <Loading />
        )}
      </div>
    </>
  );
}

/** Which Ray the gateway has joined, and what of it others can reach. */
function Ray({ address, local, owner, reason, openPorts, folderProblem }: RayInUse) {
  const where = local ? `local, of ${owner}` : owner ? `of ${owner}, on this machine` : "on another machine";
  return (
    <>
      <p className="faint">
        Ray <span className="mono">{address}</span> ({where}): {reason}
        {openPorts.length > 0 && `. It listens beyond loopback: ${openPorts.join(", ")}`}
      </p>
      {folderProblem && <p className="bad">Other users can reach the sockets and logs of Ray: {folderProblem}</p>}
    </>
  );
}

function Overview({ status, unready }: ClusterNow) {
  const { hosts, agencyHosts, nodes, awake, hibernated, alarms } = status;
  const { list } = useStore(agencies);
  const names = useMemo(() => new Map((list ?? []).map((each) => [each.id, each.name])), [list]);
  const working = hosts.reduce((sum, host) => sum + host.working, 0);
  const memory = [...hosts, ...agencyHosts].reduce((sum, host) => sum + (host.rssBytes ?? 0), 0);
  const sleeping = Object.entries(alarms).sort(([, a], [, b]) => a - b);
  return (
    <div className={css.page}>
      {unready && <p className="bad">{unready.message}</p>}
      {nodes.map(({ id, problem }) =>
        problem ? (
          <p key={id} className="bad">
            Hosts do not start on node {id.slice(0, 8)}: {problem}
          </p>
        ) : null,
      )}
      {status.ray && <Ray {...status.ray} />}
      {[...hosts, ...agencyHosts].map(({ name, problem }) =>
        problem ? (
          <p key={name} className="bad">
            {name} is silent: {problem}
          </p>
        ) : null,
      )}
      <dl className={css.figures}>
        <Figure name="at work" value={number(working)} />
        <Figure name="threads awake" value={number(awake)} />
        <Figure name="hibernated" value={number(hibernated)} />
        <Figure name="hosts" value={number(hosts.length)} />
        <Figure name="agency hosts" value={number(agencyHosts.length)} />
        <Figure name="nodes" value={number(nodes.length)} />
        <Figure name="memory of hosts" value={bytes(memory)} />
      </dl>
      <section>
        <h2 className={css.heading}>Hosts</h2>
        <div className={css.wide}>
          <table className="table">
            <thead>
              <tr>
                <th>Host</th>
                <th>Node</th>
                <th>Role</th>
                <th>State</th>
                <th>At work</th>
                <th>Memory</th>
                <th>Threads</th>
              </tr>
            </thead>
            <tbody>
              {hosts.map((host) => (
                <tr key={host.name}>
                  <td>
                    <Process name={host.name} pid={host.pid} />
                  </td>
                  <td className="mono">{host.node.slice(0, 8)}</td>
                  <td>{host.role}</td>
                  <td>
                    <State of={host.state} />
                  </td>
                  <td className="num">{host.working}</td>
                  <td className="num">{host.rssBytes === null ? "" : bytes(host.rssBytes)}</td>
                  <td>
                    <Addresses of={host.threads} names={names} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <section>
        <h2 className={css.heading}>Agency hosts</h2>
        <div className={css.wide}>
          <table className="table">
            <thead>
              <tr>
                <th>Agency host</th>
                <th>Node</th>
                <th>State</th>
                <th>Memory</th>
                <th>Agencies awake</th>
              </tr>
            </thead>
            <tbody>
              {agencyHosts.map((host) => (
                <tr key={host.name}>
                  <td>
                    <Process name={host.name} pid={host.pid} />
                  </td>
                  <td className="mono">{host.node.slice(0, 8)}</td>
                  <td>
                    <State of={host.state} />
                  </td>
                  <td className="num">{host.rssBytes === null ? "" : bytes(host.rssBytes)}</td>
                  <td>
                    <Addresses of={host.agencies} names={names} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <section>
        <h2 className={css.heading}>Nodes</h2>
        <ul className={css.nodes}>
          {nodes.map((node) => (
            <li key={node.id}>
              <span className="row">
                <span className="mono grow cut">{node.id}</span>
                <span className="faint num">
                  {node.hosts} of {count(node.budget, "host")} before threads share
                </span>
              </span>
              <span className={css.bar} aria-hidden="true">
                <span style={{ width: `${Math.min(100, (100 * node.hosts) / Math.max(1, node.budget))}%` }} />
              </span>
            </li>
          ))}
        </ul>
      </section>
      {sleeping.length > 0 && (
        <section>
          <h2 className={css.heading}>Asleep until</h2>
          <ul>
            {sleeping.slice(0, THREADS_SHOWN).map(([address, at]) => (
              <li key={address} className="row">
                <span className="num">{dateTime(at)}</span>
                <AddressLink address={address} names={names} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dd>{value}</dd>
      <dt>{name}</dt>
    </div>
  );
}

function Process({ name, pid }: { name: string; pid: number | null }) {
  return (
    <>
      <span className="mono">{name}</span>
      {pid !== null && <span className="faint"> pid {pid}</span>}
    </>
  );
}

function State({ of }: { of: keyof typeof TONES }) {
  return (
    <span className="tag" data-tone={TONES[of]}>
      {of}
    </span>
  );
}

/** Of threads, or of agencies. */
function Addresses({ of, names }: { of: readonly string[]; names: ReadonlyMap<string, string> }) {
  if (of.length === 0) return <span className="faint">none</span>;
  return (
    <details>
      <summary>{number(of.length)}</summary>
      <ul>
        {of.slice(0, THREADS_SHOWN).map((address) => (
          <li key={address}>
            <AddressLink address={address} names={names} />
          </li>
        ))}
      </ul>
      {of.length > THREADS_SHOWN && <p className="faint">and {number(of.length - THREADS_SHOWN)} more</p>}
    </details>
  );
}

/** An address reads agency/thread, or is an agency's id alone. */
function AddressLink({ address, names }: { address: string; names: ReadonlyMap<string, string> }) {
  const [agency = "", thread] = address.split("/");
  const href = thread ? to.thread(agency, thread) : to.agency(agency);
  return (
    <Link href={href} className="mono">
      {names.get(agency) ?? agency}
      {thread ? ` / ${thread}` : ""}
    </Link>
  );
}
