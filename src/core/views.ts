import { type Selection, View } from './view.js';

/** The selection of a view that was removed from the configuration. Sessions that still use the view see nothing. */
const NOTHING: Selection = { servers: [] };

/** The configured views, by name. A change of the configuration reaches the sessions that use a view. */
export class Views {
  private readonly views = new Map<string, View>();

  constructor(selections: Readonly<Record<string, Selection>>) {
    this.configure(selections);
  }

  configure(selections: Readonly<Record<string, Selection>>): void {
    for (const [name, view] of this.views) {
      if (selections[name] !== undefined) continue;
      view.replace({ ...NOTHING, name });
      this.views.delete(name);
    }
    for (const [name, selection] of Object.entries(selections)) {
      const named = { ...selection, name };
      const view = this.views.get(name);
      if (view) view.replace(named);
      else this.views.set(name, new View(named));
    }
  }

  get(name: string): View | undefined {
    return this.views.get(name);
  }

  get names(): readonly string[] {
    return [...this.views.keys()];
  }
}
