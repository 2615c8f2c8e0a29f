#include "model_maker/sample_text.h"

// Written for this file. The mix of words and turns of phrase matters, not the story.

namespace kvkeep::gguf {

std::string_view sample_prose() {
  return R"text(You are a helpful coding assistant that works in a terminal. You can read files, search the project, edit code and run commands. Think about the task before you act, and keep your answers short. When you are not sure what the user wants, ask one question instead of guessing. Never change files that have nothing to do with the task, and never delete anything that you did not create yourself.

You have access to a set of tools. Use the read tool to look at a file before you edit it. Use the search tool to find where a function is defined and where it is called. Use the bash tool to build the project and to run the tests. If a command fails, read the error message, say what you think the cause is, and try again with a smaller change. Do not repeat a command that has already failed in the same way.

When the work is done, write a short summary: what was changed, why it was changed, and how it was tested. If something is still missing, say so. The user prefers an honest report to a long one. Do not add comments that only repeat what the code says. Follow the style of the files around you, even where you would have done it differently.

The following information describes the environment in which you are running. The working directory is the root of a git repository. The platform is Linux. The current branch is main, and there are a few files that have not been committed yet. These changes may have been made by the user; leave them alone unless you are asked to do something with them.

Hello! Could you please help me with a problem in my project? Since yesterday the server does not start any more. It prints that the address is already in use, but I cannot find another process that listens on the same port. I have tried to restart the machine, and I have also tried to use a different port number, but the result is always the same. What should I look at next?

Thank you, that was a good idea. There was an old service in the background which started again after every crash. I have stopped it now and the server runs without errors. One more question: is there a way to see how long each request takes? I would like to know which part of the program is slow before I change anything.

Sure. The easiest way is to write one line to the log when a request begins and another when it ends, with the time between them. For most programs this is good enough. If you need to know more, you can use a profiler, which looks at the running program many times in a second and counts how often it finds each function. The functions that are found most often are those where the time goes. Be careful with the results, though: a function that waits for the disk uses no processor time, and it will not appear in such a list at all.

Let me explain how the cache works. Each time a client sends a message, it sends the whole conversation again, from the first word to the last. The model has seen almost all of these words before, and what it computed for them has not changed. So it is a waste of time to compute it again. Instead we keep the results in memory, and when memory is full we write them to disk. When the next request arrives, we compare its tokens with those that we know, find the longest common prefix, load what belongs to it, and compute only what is new. For a long conversation this makes the difference between half a minute and half a second.

There are a few things that make this harder than it sounds. First, the text that comes back from the client is not always the text that was sent. Some clients remove the thoughts of the model, some add the date or the state of the repository, and some write the same numbers in a different order. Second, not every model can go back to an earlier point. Third, a computer may lose power at any moment, and whatever is on the disk afterwards must either be right or be ignored. A cache is allowed to forget, but it is never allowed to lie.

I opened the window this morning and saw that it had rained all night. The street was still wet, the leaves of the old tree in front of the house were shining, and two children were jumping from one puddle to the next on their way to school. Their mother walked behind them with a bag in each hand and called out that they should hurry, but she was laughing as well. It was the first warm day of the year.

My grandfather used to repair clocks. His workshop was a small room behind the kitchen, with one large table and hundreds of little drawers. As a child I was allowed to sit beside him, if I promised to touch nothing. He would take a watch apart, lay out its wheels and springs in a row, clean each of them with a soft brush, and put them together again without ever looking at a plan. When I asked him how he could remember where everything belonged, he said that he did not remember it at all. Every part fits in only one place, he said, and you only have to look until you see it.

Water boils at a lower temperature in the mountains, because the air above it presses less. That is why food takes longer to cook there. People who live in high places know this well, and they either start earlier or close the pot with a heavy lid. The same effect, turned around, is used in hospitals: under high pressure, steam becomes much hotter than boiling water and kills everything that might make a patient ill.

The history of the city begins with a bridge. For many days' walk up and down the river there was no other place where a wagon could cross, and so the traders came together here, first for a night, then for a market, and finally for good. They built houses of wood, and after the great fire they built houses of stone. The wall around the old town was taken down a long time ago, but you can still see from the names of the streets where it used to stand.

Most people believe that they decide with their head. Studies show a different picture: we often know within a few seconds what we want, and spend the rest of the time looking for reasons. This is not necessarily bad. A person who has done something a thousand times has learnt more than he or she can put into words. But it does mean that we should be suspicious of our own arguments, particularly when they lead to exactly the result that we hoped for.

If you want to learn a new language, do not begin with the grammar. Begin with a few hundred words that you need every day, and use them from the first hour, even if every sentence is wrong. Children learn that way, and nobody has ever met a child who failed. Later, when you have something to say, the rules will be interesting, because they will answer questions that you already have.

Dear colleagues, the meeting on Thursday will start at ten o'clock instead of nine, because some of us have to travel. Please send me your reports by Wednesday evening, so that everybody has enough time to read them. We will talk about the budget for next year, about the two open positions, and about the question whether the office should move. If there is anything else that you would like to discuss, let me know. Best regards.

The report says that sales increased by twelve percent during the last quarter, while costs remained about the same. The company plans to open three new stores before the end of the year and to hire about two hundred people. Analysts were surprised by the numbers, since the market as a whole had become smaller. However, they also warned that the price of energy could rise again in winter, and that higher interest rates would make it more difficult to pay for the new buildings.

How does a compiler work? It reads the source text and cuts it into words, it builds a tree from the words, it checks that the types of the tree fit together, and then it translates the tree into instructions for the machine. On the way it tries to make the program faster: it removes what is never used, it computes in advance what does not depend on the input, and it keeps values in registers as long as possible. Modern compilers are so good at this that it is rarely worth the effort to do it by hand. What they cannot do is choose a better algorithm for you.

What is the difference between a thread and a process? A process has its own memory, and another process cannot look into it without asking the operating system. Threads live inside a process and share its memory. That makes it easy for them to work together, and just as easy to step on each other's feet: if two threads change the same value at the same time, the result may be neither what the first nor what the second intended. To prevent this, a thread takes a lock before it touches the value and gives it back afterwards. If two threads wait for each other's locks, both wait for ever, which is called a deadlock.

I think we should not merge this yet. The idea is right and the tests pass, but the new function does three things at once: it decides what to remove, it removes it, and it writes the log. If the removal fails in the middle, the log says something that did not happen. Could you split it, so that one part makes the decision from plain values and the other carries it out? Then the first part can be tested without a file system. Apart from that I only have small remarks, see the comments below. Thanks for working on this, it's a real improvement!

I've looked at the failing test. It doesn't fail because of your change; it fails whenever the machine is slow, since it waits for exactly one second and then expects the answer to be there. We shouldn't make the time longer, that'd only hide the problem. It's better to wait for the event itself and to let the test runner's own limit catch the case where it never comes. I'll send a patch tomorrow if you don't mind. They're also seeing it on the other branch, so we'll need it there too, and I'd like to know what you think before then.

Once there was a king who owned the largest library in the world, and yet he could not find the book he wanted. He asked his advisers. The first said: hire more servants, and let them search day and night. The second said: throw away the books that nobody reads. The third, a young woman who had grown up in a village, said nothing and went to work. She wrote the name of every book on a small card, together with the number of the shelf, and put the cards in order. It took her a year. After that, the king could find any book within a minute, and the servants, who were afraid that they would no longer be needed, found that for the first time they had time to read.

The weather tomorrow: in the north it will be cloudy with some rain in the afternoon, with temperatures between eight and twelve degrees. In the south there will be sunshine for most of the day. The wind comes from the west and will become stronger in the evening. On Saturday and Sunday it stays dry and becomes a little warmer.

To make the bread you need flour, water, salt, and a little yeast. Mix everything in a large bowl until no dry flour is left, cover it, and leave it alone until the next morning. Then fold it a few times, let it rest for another hour while the oven becomes hot, and bake it for forty minutes. The most difficult part is to wait until it has cooled down before you cut it.

Question: A train leaves the station at eight in the morning and travels at ninety kilometers per hour. A second train leaves the same station an hour later, in the same direction, at one hundred and twenty. When does it reach the first? Answer: When the second train starts, the first is already ninety kilometers away. The second comes closer by thirty kilometers each hour, so it needs three hours. It reaches the first train at noon, three hundred and sixty kilometers from the station.

The user is asking me to find out why the build is broken. Let me start by looking at the error message. It says that a header file could not be found. The file exists, but it was moved to another directory in the last commit, so the include path must be wrong. I will check the build file first, then fix the path, and finally run the tests to make sure that nothing else depends on the old location.
)text";
}

}  // namespace kvkeep::gguf
