import { Component, type ReactNode } from "react";
import { Empty } from "@/ui/Empty";

/** What is shown in the place of a part that broke, as when a newer version has replaced the files of this one. */
export class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const error: Error | null = this.state.error;
    if (error === null) return this.props.children;
    return (
      <Empty title="This part of the page did not work." alert>
        <p>{(error as Error).message}</p>
        <button type="button" className="button" onClick={() => location.reload()}>
          Load the page again
        </button>
      </Empty>
    );
  }
}
