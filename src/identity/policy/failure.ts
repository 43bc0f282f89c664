/** An evaluation that failed, such as a missing key. */
export class Failure {
  constructor(readonly message: string) {}
}
