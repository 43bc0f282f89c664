/**
 * A replica that only delivers notifications, to be killed: `node --import ./test/support/ts.mjs webhook-child.ts`.
 * RIG contains its options as JSON.
 */
import { Rig } from './webhook-rig.js';

const rig = await Rig.open(JSON.parse(process.env['RIG']!));
rig.sender.start();
process.stdout.write('ready\n');
