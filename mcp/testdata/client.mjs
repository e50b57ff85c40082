// A client of the TypeScript SDK calls tools and prints their results, one JSON line each.
// Arguments: the directory of the npm packages, then the server's URL, or the command that starts it.
// Stdin: [{"name": …, "arguments": …}, …].
import { text } from 'node:stream/consumers'

const [packages, server, ...rest] = process.argv.slice(2)
const sdk = (file) => import(`${packages}/@modelcontextprotocol/sdk/dist/esm/client/${file}.js`)
const { Client } = await sdk('index')
const { StdioClientTransport } = await sdk('stdio')
const { StreamableHTTPClientTransport } = await sdk('streamableHttp')

const client = new Client({ name: 'tests', version: '1' })
await client.connect(
  server.startsWith('http:')
    ? new StreamableHTTPClientTransport(new URL(server))
    : new StdioClientTransport({ command: server, args: rest }), // the server gets the default environment
)
await client.listTools() // from now on, the client validates results against the listed schemas
for (const call of JSON.parse(await text(process.stdin))) {
  const result = await client.callTool(call).catch((error) => ({ thrown: String(error) }))
  console.log(JSON.stringify(result))
}
await client.close()
