"""Drives "sb mcp" over stdio: one JSON message per line, nothing but the standard library."""
import json
import subprocess

server = subprocess.Popen(["sb", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def send(message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def call(id, method, params):
    send({"id": id, "method": method, "params": params})
    for line in server.stdout:
        answer = json.loads(line)
        if answer.get("id") == id:
            return answer["result"]


call(1, "initialize", {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "example", "version": "1"},
})
send({"method": "notifications/initialized"})
tools = {tool["name"] for tool in call(2, "tools/list", {})["tools"]}
print("can run code:", "run_code" in tools)
result = call(3, "tools/call", {"name": "run_code", "arguments": {"language": "python", "code": "print(6 * 7)"}})
print("answer:", "42" in result["content"][0]["text"])
server.stdin.close()
server.wait(timeout=60)
