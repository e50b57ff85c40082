// A client that oazapfts generated from docs/openapi.json uses a sandbox, and prints each response as a line of JSON.
// Arguments: the file of the client, the server's URL. Stdin: the key.
import { text } from 'node:stream/consumers'

const [file, url] = process.argv.slice(2)
const sb = await import(file)
sb.defaults.baseUrl = url
sb.defaults.headers = { Authorization: `Bearer ${(await text(process.stdin)).trim()}` }

const show = async (name, response) => {
  const { status, data } = await response
  console.log(JSON.stringify({ name, status, data: data instanceof Blob ? await data.text() : data }))
}
await show('launch', sb.sandboxLaunch({ name: 'made', image: 'host' }, { idempotencyKey: 'one' }))
await show('again', sb.sandboxLaunch({ name: 'made', image: 'host' }, { idempotencyKey: 'one' }))
await show('write', sb.fileWrite('made', '/tmp/x.py', new Blob(['print(6 * 7)'])))
await show('exec', sb.exec('made', { argv: ['python3', '/tmp/x.py'] }))
await show('wait', sb.execWait('made', '1', { waitSeconds: 0 }))
await show('read', sb.fileRead('made', '/tmp/x.py', { range: 'bytes=0-4' }))
await show('list', sb.sandboxList({ all: true }))
await show('pause', sb.sandboxPause('made'))
await show('resume', sb.sandboxResume('made'))
await show('terminate', sb.sandboxTerminate('made'))
await show('gone', sb.sandboxInspect('made'))
