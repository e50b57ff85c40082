// A client of the TypeScript SDK calls tools and prints their results, one JSON line each.
// Arguments: the directory of the npm packages, the server's URL. Stdin: [{"name": …, "arguments": …}, …].
import { text } from 'node:stream/consumers'

const [packages, url] = process.argv.slice(2)
const sdk = (file) => import(`${packages}/@modelcontextprotocol/sdk/dist/esm/client/${file}.js`)
const { Client } = await sdk('index')
const { StreamableHTTPClientTransport } = await sdk('streamableHttp')

const client = new Client({ name: 'tests', version: '1' })
await client.connect(new StreamableHTTPClientTransport(new URL(url)))
await client.listTools() // from now on, the client validates results against the listed schemas
for (const call of JSON.parse(await text(process.stdin))) {
  const result = await client.callTool(call).catch((error) => ({ thrown: String(error) }))
  console.log(JSON.stringify(result))
}
await client.close()
