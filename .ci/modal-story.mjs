import assert from "node:assert/strict";
import { ModalClient } from "modal";

const modal = new ModalClient();
const app = await modal.apps.fromName("story", { createIfMissing: true });
const image = modal.images.fromRegistry("debian:12-slim");
const sandbox = await modal.sandboxes.create(app, image, { env: { GREETING: "hello" } });

const command = await sandbox.exec(["sh", "-c", 'cat; echo "$GREETING" >&2; exit 7']);
const input = command.stdin.getWriter();
await input.write("from stdin\n");
await input.close();
assert.equal(await command.stdout.readText(), "from stdin\n");
assert.equal(await command.stderr.readText(), "hello\n");
assert.equal(await command.wait(), 7);

await sandbox.setTags({ story: "js" });
const found = [];
for await (const other of modal.sandboxes.list({ appId: app.appId, tags: { story: "js" } })) {
  found.push(other.sandboxId);
}
assert.deepEqual(found, [sandbox.sandboxId]);

assert.equal(await sandbox.terminate({ wait: true }), 137);
console.log("the story with the JavaScript SDK passes");
process.exit(0);
