// Package witness gathers and verifies cosignatures: statements of independent
// witnesses that a log's checkpoint extends everything that they saw of it
// before (C2SP tlog-cosignature, tlog-witness and tlog-policy). It knows
// checkpoints as signed notes only, and so belongs to no log in particular.
//
// The invariants, and the tests that show them:
//
//   - A cosignature counts if it is by a key of the policy, over exactly this
//     note, and not of the future (TestOnlyCosignaturesOfThisNoteCount).
//   - Whatever a witness answers, asking it ends within its time, reads a
//     bounded number of octets, and asks at most twice
//     (TestHostileWitnessesAreBounded).
//   - A witness that has seen more of the log than there is, or something else,
//     is told apart from one that is only unwell
//     (TestARollbackIsToldFromAFailure).
//   - What is accepted as a key is what a Key prints (FuzzKey), and no policy
//     counts one witness twice (TestPoliciesOfAnotherFormAreRefused).
//
// # Policy files
//
// A Policy is a file in the format of C2SP tlog-policy, which Sigsum began and
// other programs read too:
//
//	# Two of three, whoever runs them.
//	witness ann  witness.example.com/ann+1a2b3c4d+BA…  https://witness.example.com/ann
//	witness bob  bob.example/w1+5e6f7a8b+BA…           https://bob.example/w1
//	witness eve  eve.example+9c0d1e2f+BA…              https://eve.example/witness
//	group   any2 2 ann bob eve
//	quorum  any2
//
// The key is a verifier key of type 0x04, as the witness's operator names it;
// the URL is the submission prefix, below which add-checkpoint is asked, and
// only a log needs it. Choose https: cosignatures cannot be forged on the way,
// but a false alarm can. A quorum is the name of a witness, of a group, or
// "none"; groups (a number, any, or all) may hold groups. A "log" line names a
// log that the policy is for; without one it is for every log.
package witness
