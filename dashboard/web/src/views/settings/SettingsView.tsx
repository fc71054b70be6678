import { useState } from "react";
import { DeleteAgency, RenameAgency } from "@/agencies/agencyDialogs";
import { agencies } from "@/agencies/agencyList";
import { getLayers } from "@/api/agencies";
import { useLoad } from "@/api/hooks";
import { useStore } from "@/live/store";
import { dateTime } from "@/text/format";
import { PageHead } from "@/ui/PageHead";
import { KeysCard } from "@/views/settings/KeysCard";
import { LimitsCard } from "@/views/settings/LimitsCard";
import { PolicyCard } from "@/views/settings/PolicyCard";
import { ProvidersCard } from "@/views/settings/ProvidersCard";
import css from "@/views/settings/SettingsView.module.css";
import { UsageCard } from "@/views/settings/UsageCard";

/** What an agency has used and may use, whom it asks, and who may come in. */
export default function SettingsView({ agency }: { agency: string }) {
  const { list } = useStore(agencies);
  const info = list?.find((each) => each.id === agency);
  const { data: layers, reload } = useLoad(agency, () => getLayers(agency));
  const [dialog, setDialog] = useState<"rename" | "delete" | null>(null);
  return (
    <>
      <PageHead title="Settings" />
      <div className={`page scroll ${css.page}`}>
        {info && (
          <section className="card">
            <h2 className={css.heading}>{info.name}</h2>
            <p className="faint">
              <span className="mono">{info.id}</span>, since {dateTime(info.createdAt)}
            </p>
            {info.damaged && (
              <p className="bad">
                The file of this agency is damaged. Restore it from a backup (<code>agency doctor</code> on the server
                names it), or delete the agency.
              </p>
            )}
            <div className={`row ${css.buttons}`}>
              {!info.damaged && (
                <button type="button" className="button" onClick={() => setDialog("rename")}>
                  Rename …
                </button>
              )}
              <button type="button" className="button" onClick={() => setDialog("delete")}>
                Delete …
              </button>
            </div>
          </section>
        )}
        {!info?.damaged && (
          <>
            <UsageCard agency={agency} layers={layers} onSaved={reload} />
            {layers && <LimitsCard agency={agency} layers={layers} onSaved={reload} />}
            <PolicyCard agency={agency} layers={layers} onSaved={reload} />
            <ProvidersCard agency={agency} />
            <KeysCard agency={agency} />
          </>
        )}
        {dialog === "rename" && info && <RenameAgency agency={info} onClose={() => setDialog(null)} />}
        {dialog === "delete" && info && <DeleteAgency agency={info} onClose={() => setDialog(null)} />}
      </div>
    </>
  );
}
