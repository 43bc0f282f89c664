/**
 * Clients that send one request and then keep their connection idle: idle-clients.mjs <port> <count>
 * Prints `{"open":…,"closed":…}` at every change, and closes all connections when its stdin ends.
 */
import { connect } from 'node:net';

const [port, count] = process.argv.slice(2).map(Number);
const REQUEST = 'GET /_health/live HTTP/1.1\r\nHost: localhost\r\n\r\n';
const AT_ONCE = 100;
const sockets = new Set();
let [begun, open, closed] = [0, 0, 0];

function next() {
  if (begun >= count) return;
  const n = begun++;
  // A source address has about 28,000 ports, so several addresses are used.
  const socket = connect({ port, host: '127.0.0.1', localAddress: `127.0.0.${2 + (n % 4)}` });
  let served = false;
  sockets.add(socket);
  socket.on('connect', () => socket.write(REQUEST));
  socket.once('data', () => {
    served = true;
    open++;
    next();
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    sockets.delete(socket);
    closed++;
    if (served) open--;
    else next();
  });
}

for (let i = 0; i < AT_ONCE; i++) next();
let said = '';
const report = setInterval(() => {
  const line = JSON.stringify({ open, closed });
  if (line !== said) process.stdout.write(`${line}\n`);
  said = line;
}, 50);
process.stdin.on('end', () => {
  clearInterval(report);
  for (const socket of sockets) socket.destroy();
  process.exit(0);
});
process.stdin.resume();
