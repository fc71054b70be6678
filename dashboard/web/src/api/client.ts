// The page's own client: the gateway that serves it, and the secret of its tab.

import { AgencyClient } from "@/api/agencyClient";
import { secret } from "@/api/secret";
import { ifThere, path, Transport } from "@/api/transport";
import { BASE } from "@/router/base";

const transport = new Transport({ url: BASE, secret: secret.get });

export const client = new AgencyClient(transport);
export const request: Transport["request"] = (address, options) => transport.request(address, options);
export const send: Transport["send"] = (address, init) => transport.send(address, init);
export const openSocket = transport.open;
export { ifThere, path };
