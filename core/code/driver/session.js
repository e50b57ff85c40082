// A code session: a process that keeps the variables of JavaScript code between runs. bridge.js starts it. Its arguments
// are the session's name, and the seconds after which an unused session ends. The doc comment of sb's package core/code
// has the requests and events.
'use strict';

const fs = require('fs');
const inspector = require('inspector');
const { createRequire } = require('module');
const net = require('net');
const path = require('path');
const { pathToFileURL } = require('url');
const { inspect } = require('util');
const vm = require('vm');

const PROTOCOL = 1;
const LINE_LIMIT = 64 << 20;
const TEXT_LIMIT = 1 << 20;
const DATA_LIMIT = 32 << 20;
const FILE_LIMIT = 1000;
const FIRST_LIMIT = 60; // seconds until the first client connects
const DIRECTORY = '/tmp/.sb-code-' + process.getuid();

const file = (name, kind) => path.join(DIRECTORY, name + '.' + kind);

function connect(name) {
  return new Promise((resolve) => {
    const connection = net.connect(file(name, 'sock'));
    connection.once('connect', () => resolve(connection));
    connection.once('error', () => resolve(null));
  });
}

function load(name) {
  try {
    return JSON.parse(fs.readFileSync(file(name, 'json'), 'utf8'));
  } catch {
    return null;
  }
}

function save(name, state) {
  fs.writeFileSync(file(name, 'new'), JSON.stringify(state));
  fs.renameSync(file(name, 'new'), file(name, 'json'));
}

function remove(name, ...kinds) {
  for (const kind of kinds) fs.rmSync(file(name, kind), { force: true });
}

// lines calls f with each line of a stream.
function lines(stream, f) {
  let held = '';
  stream.setEncoding('utf8');
  stream.on('data', (text) => {
    held += text;
    for (let at = held.indexOf('\n'); at >= 0; at = held.indexOf('\n')) {
      const line = held.slice(0, at);
      held = held.slice(at + 1);
      f(line);
    }
    if (held.length > LINE_LIMIT) stream.destroy();
  });
}

class Session {
  constructor(name, idle) {
    Object.assign(this, { name, idle: Number(idle), queue: [], client: null, busy: false, count: 0, clients: 0 });
    this.started = this.used = Date.now() / 1000;
  }

  send(event) {
    if (this.client && !this.client.destroyed) this.client.write(JSON.stringify(event) + '\n');
  }

  text(type, text) {
    for (let at = 0; at < text.length; at += TEXT_LIMIT) this.send({ type, text: text.slice(at, at + TEXT_LIMIT) });
  }

  result(data, count) {
    const kept = {};
    const omitted = {};
    let total = 0;
    for (let [mime, value] of Object.entries(data)) {
      if (value instanceof Uint8Array) value = Buffer.from(value).toString('base64');
      if (mime === 'text/plain' && value.length > TEXT_LIMIT) value = value.slice(0, TEXT_LIMIT) + '\u2026';
      const size = (JSON.stringify(value) || '').length;
      if (total + size > DATA_LIMIT) {
        omitted[mime] = size;
        continue;
      }
      total += size;
      kept[mime] = value;
    }
    const event = { type: 'result', data: kept };
    if (Object.keys(omitted).length) event.omitted = omitted;
    if (count !== undefined) event.execution_count = count;
    this.send(event);
  }

  error(error) {
    const real = error instanceof Error || (error && typeof error.stack === 'string');
    const value = real ? String(error.message) : inspect(error);
    const stack = real ? error.stack.split('\n') : [value];
    const own = stack.findIndex((line) => line.includes('[eval]') || line.includes('evalmachine') || line.includes('node:inspector'));
    this.send({
      type: 'error', name: real ? error.name : 'Error', value: value.slice(0, TEXT_LIMIT),
      traceback: (own > 0 ? stack.slice(0, own) : stack).slice(0, 500).map((line) => line.slice(0, 8192)),
    });
  }

  prepare() {
    for (const [type, stream] of [['stdout', process.stdout], ['stderr', process.stderr]]) {
      stream.write = (text, encoding, done) => {
        this.text(type, typeof text === 'string' ? text : Buffer.from(text).toString());
        const callback = typeof encoding === 'function' ? encoding : done;
        if (callback) process.nextTick(callback);
        return true;
      };
    }
    process.on('uncaughtException', (error) => this.error(error));
    process.on('unhandledRejection', (error) => this.error(error));
    process.on('SIGINT', () => this.interrupted && this.interrupted());
    process.argv = [process.argv[0], ''];
    this.evaluator = new Evaluator();
    globalThis.display = (...values) => values.forEach((value) => this.result(bundle(value)));
  }

  attend(client) {
    client.on('error', () => {});
    client.write(JSON.stringify({ type: 'hello', protocol: PROTOCOL, language: 'javascript', started: this.started }) + '\n');
    lines(client, (line) => {
      let request;
      try {
        request = JSON.parse(line);
      } catch {
        client.destroy();
        return;
      }
      if (request.op === 'run') {
        if (!client.runs) { // now the session is in use
          client.runs = true;
          this.clients++;
          client.on('close', () => this.clients--);
        }
        if (this.busy || this.queue.length) client.write('{"type":"queued"}\n');
        this.queue.push([client, request]);
        this.next();
      } else if (request.op === 'cancel') {
        client.canceled = true;
      } else if (request.op === 'status') {
        client.write(JSON.stringify({
          type: 'status', state: this.busy ? 'busy' : 'idle', execution_count: this.count, queued: this.queue.length,
          used: this.used,
        }) + '\n');
      }
    });
    client.on('end', () => {
      this.queue.push([client, null]);
      this.next();
    });
  }

  async next() {
    if (this.busy || !this.queue.length) return;
    const [client, request] = this.queue.shift();
    if (!request) {
      client.end();
    } else if (!client.canceled) {
      this.busy = true;
      await this.run(client, String(request.code || ''));
      this.busy = false;
    }
    if (client.runs) {
      this.used = Date.now() / 1000;
      this.wait();
    }
    setImmediate(() => this.next());
  }

  wait(least = 0) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.busy || this.queue.length || this.clients) this.wait();
      else this.end('idle for ' + this.idle + ' seconds');
    }, Math.max(this.idle, least) * 1000);
  }

  end(reason) {
    save(this.name, { ...load(this.name), ended: reason });
    remove(this.name, 'sock');
    process.exit(0);
  }

  async run(client, code) {
    this.client = client;
    this.count++;
    this.send({ type: 'begin' });
    const before = files();
    const interrupted = new Promise((resolve) => {
      this.interrupted = () => resolve({ failed: true, error: stopped() });
    });
    const { failed, error, value } = await Promise.race([this.evaluator.run(code), interrupted]);
    this.interrupted = null;
    let ok = !failed;
    if (failed) {
      this.error(error);
    } else if (value !== undefined && !code.trimEnd().endsWith(';')) {
      try {
        this.result(bundle(value), this.count);
      } catch (error) {
        this.error(error);
        ok = false;
      }
    }
    const changed = [...files()].filter(([name, stamp]) => before.get(name) !== stamp)
      .map(([name, stamp]) => ({ name, size: Number(stamp.split(' ')[0]) }));
    await new Promise(setImmediate); // what the code left to do at once, such as a write to a stream
    this.send({ type: 'end', ok, execution_count: this.count, files: changed });
    this.client = null;
    if (client.writableLength > 1 << 20) await new Promise((resolve) => client.once('drain', resolve).once('close', resolve));
  }
}

// stopped returns the error of code that was interrupted.
function stopped() {
  const error = new Error('the code was interrupted');
  error.name = 'KeyboardInterrupt';
  error.stack = 'KeyboardInterrupt';
  return error;
}

// An Evaluator runs code as the console of Chrome's developer tools does: declarations last and may be repeated, and
// code may await. A SIGINT ends code that does not return to the event loop.
class Evaluator {
  constructor() {
    this.session = new inspector.Session();
    this.session.connect();
    const run = Symbol.for('sb.run');
    const keep = Symbol.for('sb.keep');
    const hide = (key, value) => Object.defineProperty(globalThis, key, { value, configurable: true });
    hide(run, () => {
      this.reply = this.post('Runtime.evaluate', { expression: this.code, replMode: true });
      this.reply.catch(() => {}); // run looks at it
    });
    hide(keep, (value) => {
      this.kept = value;
    });
    hide('__import', (name) => import(/^(node:|[a-z]+:)/.test(name) ? name : this.resolve(name)));
    globalThis.require = createRequire(path.join(process.cwd(), 'session.js'));
    this.script = new vm.Script("globalThis[Symbol.for('sb.run')]()");
  }

  resolve(name) {
    const found = globalThis.require.resolve(name);
    return path.isAbsolute(found) ? pathToFileURL(found).href : found;
  }

  post(method, params) {
    return new Promise((resolve, reject) => {
      this.session.post(method, params, (error, reply) => (error ? reject(error) : resolve(reply)));
    });
  }

  async run(code) {
    // Node.js offers no import() to code that the inspector runs.
    this.code = code.replace(/\bimport\s*\(/g, '__import(');
    try {
      this.script.runInThisContext({ breakOnSigint: true });
      const { result, exceptionDetails } = await this.reply;
      if (exceptionDetails) return { failed: true, error: await this.value(exceptionDetails.exception) };
      return { value: await this.value(result) };
    } catch {
      return { failed: true, error: stopped() };
    }
  }

  // value returns the value that the inspector describes.
  async value(remote) {
    const { objectId, value, unserializableValue: other } = remote;
    if (objectId) {
      await this.post('Runtime.callFunctionOn', {
        functionDeclaration: "function () { 'use strict'; globalThis[Symbol.for('sb.keep')](this); }", objectId,
      });
      await this.post('Runtime.releaseObject', { objectId });
      const kept = this.kept;
      this.kept = undefined;
      return kept;
    }
    if (other === undefined) return value;
    return other.endsWith('n') ? BigInt(other.slice(0, -1)) : Number(other);
  }
}

// bundle returns the representations of a value by MIME type.
function bundle(value) {
  const data = {};
  const display = value !== null && typeof value === 'object' && value[Symbol.for('Jupyter.display')];
  if (typeof display === 'function') Object.assign(data, display.call(value));
  if (!('text/plain' in data)) data['text/plain'] = inspect(value);
  return data;
}

// files returns the files of the working directory with their sizes and times.
function files() {
  const found = new Map();
  try {
    for (const entry of fs.readdirSync('.', { withFileTypes: true }).filter((e) => e.isFile()).slice(0, FILE_LIMIT)) {
      const info = fs.lstatSync(entry.name);
      found.set(entry.name, info.size + ' ' + info.mtimeMs);
    }
  } catch {
    // the directory is gone or changes
  }
  return found;
}

function serve(name, idle) {
  const claim = file(name, 'start');
  for (let tries = 0; ; tries++) {
    try {
      fs.writeFileSync(claim, String(process.pid), { flag: 'wx' });
      break;
    } catch {
      let owner = 0;
      try {
        owner = Number(fs.readFileSync(claim, 'utf8'));
        process.kill(owner, 0);
        process.exit(0); // another call starts it
      } catch {
        if (tries > 3) throw new Error('another start does not end');
        fs.rmSync(claim, { force: true });
      }
    }
  }
  connect(name).then((other) => {
    if (other) {
      fs.rmSync(claim);
      process.exit(0);
    }
    remove(name, 'sock');
    const session = new Session(name, idle);
    const server = net.createServer({ allowHalfOpen: true }, (client) => session.attend(client));
    server.listen(file(name, 'sock'), () => {
      session.prepare();
      session.wait(FIRST_LIMIT);
      save(name, { language: 'javascript', pid: process.pid, started: session.started, idle_timeout: session.idle });
      fs.rmSync(claim);
    });
  });
}

const [, sessionName, sessionIdle] = process.argv;
try {
  serve(sessionName, sessionIdle);
} catch (error) {
  fs.writeFileSync(file(sessionName, 'log'), error.stack);
  throw error;
}
