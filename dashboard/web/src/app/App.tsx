import { Suspense } from "react";
import { useRoute } from "@/router/router";
import { Loading } from "@/ui/Empty";
import { TAB_VIEWS } from "@/views/tabs";

export function App() {
  const route = useRoute();
  if (route.view !== "thread") return <p>{JSON.stringify(route)}</p>;
  const { View } = TAB_VIEWS[route.tab];
  return (
    <Suspense fallback={<Loading />}>
      <View agency={route.agency} thread={route.thread} />
    </Suspense>
  );
}
