"""Clarifying questions labelled by hand for region and time: which of the two, and what else, each asks for.

Each set has 36 Chinese and 36 English questions and was written and labelled before any rule was run on it. FIRST was
used to correct the rules of version 0.6. SECOND was held out from that, and THIRD from all corrections after SECOND;
how the rules did when they first met each is in docs/question_types.md. Since then all three have been used.

Labelling rule, from the paper (prompt A: one aspect such as time range, geographic region, entity, scope,
criteria; section 6.2: "region-only clarification, such as asking for a city or province"). A label names every aspect
that an answer would have to fill:

- `region`: a place on the map: a country, province, city, district, sea, address, origin, destination; here or
  elsewhere; the whole country or a part. Offering a named place ("is it for the UK?") asks for a region.
- `time`: a date, year, period, season, time of day, how recent, how long.
- `more`: anything else: which bearer of a name, kind, part, purpose, budget, preference.

Examples in a question and places or dates that belong to the topic do not count, nor do words for places in another
sense (state of matter, region of the brain, 地方债, 国家队). A question is region-only if its label is `region` alone.
One question a line: the label, then the question.
"""

from __future__ import annotations

from labelled_questions import Labelled, read_labels

FIRST: tuple[Labelled, ...] = read_labels(
    """
region 您想查哪个省的高考改革方案？
region 请问是想看哪座城市的地铁末班车信息？
region 您人在国内还是国外？
region 这里说的补贴，您指的是哪个省市的？
region 您打算在哪儿落户？
region 您是想了解成都的，还是其他城市的人才公寓？
region 具体要看哪片海域的台风预报？
region 方便说一下您所在的区县吗？
region 您需要的是本市的还是全省的招聘信息？
region 您想了解的是欧洲市场还是东南亚市场的销量？
region 目的地定在哪里了？
region 您要找的自驾路线是从哪里出发的？
time 您想看的是哪几年的出生人口数据？
time 您打算几月份去？
time 您问的是今年的还是去年的国家线？
time 需要最近多长时间内的新闻？
time 您想知道北京什么季节的空气质量？
time 您问的是工作日还是周末的营业时间？
time 这份统计您要截至哪一年的？
region+time 您想了解哪个省哪一年的中考时间安排？
region+time 请问要查什么地方、什么时间的潮汐？
time+region 您关心的时间段和地区分别是什么？
time+region 需要哪一年、哪个国家的失业率？
time+region 您想看哪个季节去哪个地方旅游？
region+time 城市和出行日期能告诉我吗？
time+region 您说的是哪届、在哪个城市举办的世博会？
region+time 想查全国还是某个省的，以及哪个年份的数据？
region+more 您想找哪个城市、什么价位的酒店？
region+more 您要查哪个国家的哪类签证？
time+more 您想看哪一年、哪个专业的录取分？
more+time 您想看的是单日票还是年票，大概什么时候去？
more 您说的“地方债”是指一般债还是专项债？
more 您想查的是国家公务员考试还是事业单位考试？
more 您想了解地理信息系统的哪个方面？
more 您更在意房子的位置还是价格？
more 您是想了解城市规划专业的就业还是考研？
region Which state's minimum wage are you asking about?
region Are you looking for providers near you or anywhere in the country?
region What city will you be flying out of?
region Is this for a property in the UK or somewhere else?
region Where do you plan to register the company?
region Which part of Italy do you want to visit?
region Do you want results for a particular country?
region Could you tell me your zip code?
region In which province do you want to take the driving test?
region Are you interested in beaches on the East Coast or the West Coast?
region Is there a specific neighborhood you have in mind?
region Whereabouts are you looking to rent?
time Which tax year do you need the brackets for?
time How far back should the news go?
time Are you travelling in summer or in winter?
time When is your flight to Tokyo?
time Do you need today's exchange rate or a historical one?
time Over what period do you want the inflation figures?
time How long do you plan to stay in Canada?
region+time Which country and which years should the birth rates cover?
region+time Where and when are you planning to go hiking?
region+time What location and dates should I check for the weather?
region+time Which city's marathon do you mean, and in what year?
time+region What time period and geographic area are you interested in?
time+region When do you want to travel, and to which part of Spain?
region+time Is there a specific region or year you want the statistics for?
region+time Could you give me the state and the filing year?
region+more Which country are you moving to, and what type of visa do you need?
more+region What is your budget and preferred area?
time+more Which season and which team's schedule do you want?
time+more What year and trim level is your car?
more By "state" do you mean solid, liquid or gas?
more Do you want the city building game or the movie?
more Are you asking about local variables or global variables?
more Which area of law is your question about?
more Do you want to know about the US Open in tennis or in golf?
"""
)

SECOND: tuple[Labelled, ...] = read_labels(
    """
region 您是想办哪个地方的居住证？
region 您想查询的驾校在哪个区？
region 您是问海南的还是广西的免税政策？
region 您现在住在哪个城市呢？
region 需要限定在某个省份吗？
region 您说的“老城区”是哪个城市的？
region 您想去日本的哪个地区玩？
region 您想了解南方的还是北方的种植方法？
region 要送到哪里的快递？
region 请问您户口在什么地方？
region 您想对比哪几个国家的退休年龄？
region 您关注的是长三角还是珠三角的制造业？
time 您要的是哪个月份的社保账单？
time 您想查多久以前的通话记录？
time 您想了解明代的还是清代的科举？
time 您想看上海哪一年的落户积分细则？
time 您什么时候需要用到这笔公积金？
time 您想要的是白天还是夜里的航班？
time 数据要最新一期的，还是历年都要？
time+region 您问的是哪年哪地的社平工资？
time+region 请告诉我您要查的年份和省份。
region+time 您想知道哪里几月份能看到极光？
time+region 您打算什么时候去哪个国家留学？
time+region 想了解近几年的还是今年的，是哪个城市的房价？
time+region 您需要的油价是哪一天、哪个省的？
region+time 请问地点和时间是？
region+time 您想查询某个具体城市某一年份的降雨量吗？
region+more 您想找哪个国家哪所大学的申请要求？
more+region 您的预算是多少，打算住在哪个区？
time+more 您想查哪一年的哪项补贴标准？
time+more 您要看哪个赛季、哪支球队的战绩？
more 您说的“广州塔”是指景点门票还是灯光秀？
more 您指的“中国移动”是运营商还是股票？
more 您想了解当地方言的发音还是词汇？
more 您想看国家队还是俱乐部的比赛？
more 您说的“位置服务”是指手机设置还是地图软件功能？
region Which country's citizenship are you asking about?
region Are you asking about schools in your own district or in a different one?
region Where is the apartment located?
region Do you want the national figures or the ones for a single state?
region Which island are you planning to stay on?
region Is this for the US, Canada, or another market?
region What's the nearest big town to you?
region Do you have a particular city in mind, such as Berlin or Munich?
region To which country will the parcel be shipped?
region Are you looking for hiking trails in the Alps or the Pyrenees?
region Which jurisdiction does the contract fall under?
region Do you want this limited to Southeast Asia?
time Which decade's music are you looking for?
time Do you need the schedule for weekdays or for the weekend?
time Should the results cover the past five years or just the latest year?
time When did you buy the phone?
time What month do you intend to visit Iceland?
time Do you want California's current rules or the ones from before the reform?
time How soon do you need the passport?
region+time For what place and time do you want the tide table?
time+region Which year's census, and for which county?
region+time Where are you going and in which month?
region+time Are you interested in a certain country or a certain time period?
time+region What date will you be in which city?
time+region In what year and in what country was the film you mean released?
region+time Could you specify the city and the month of your trip?
time+region Is it this summer or next, and in the north or the south of the country?
region+more Which state do you live in, and how old are you?
more+region What size of company and which country are you interested in?
more+time Which edition of the book and what year of print do you have?
time+more When is the exam, and which subject is it in?
more Do you mean Jordan the country or Jordan the basketball player?
more Are you looking for the place of art in education or for art schools?
more Which region of the brain are you interested in?
more Do you care more about location or about price?
more Are you asking about the Georgia Institute of Technology or Georgia State University?
"""
)

THIRD: tuple[Labelled, ...] = read_labels(
    """
region 您想了解哪座城市的共享单车收费？
region 请问您要寄往哪个国家？
region 您说的老年卡，是在哪个市办理的？
region 您想找的是附近的还是市中心的健身房？
region 这次自驾游您准备去西北还是西南？
region 您想问的是全国统一的规定，还是某个省的规定？
region 您的公司注册地在哪里？
region 您要查的快递是从什么地方寄出的？
region 是针对农村还是城市的宅基地政策？
region 您想看哪几个省份的降雨情况？
region 能说一下您在哪个小区吗？
region 您要找的是海淀区的还是朝阳区的学区房？
time 您需要哪一学年的校历？
time 您说的“双十一”是哪一年的？
time 您希望比赛在几点之前结束？
time 您想看广东近三年还是近五年的经济数据？
time 行程大概安排几天？
time 您想查询的是报名时间还是考试当天的时间？
time 这些数据截止到什么时候比较合适？
region+time 您打算去哪里看雪，大概几月份？
time+region 您要查的是哪天从哪个机场出发的航班？
region+time 您关注的省份和学年是？
time+region 请问是什么年代、什么地区的瓷器？
region+time 您想看哪个国家、哪个年份的人均收入？
time+region 出发时间和出发城市分别是什么？
region+time 您方便告诉我地点以及日期吗？
region+time 您想对比哪两个城市在哪一年的房租？
region+more 您想了解哪个省哪个行业的最低工资？
more+region 您想找什么菜系的餐馆，在哪个区？
time+more 您想查哪一届的哪位获奖者？
more+time 您想看的是哪个队伍在哪个赛季的数据？
more 您说的“地区差异”指收入差异还是教育差异？
more 您是想查地图的下载方法还是使用方法？
more 您想了解的国际学校是公立的还是私立的？
more 您想知道世界杯的赛程还是门票？
more 您说的“省电”是指手机设置还是家电选购？
region Which county do you live in?
region Are you looking for a dentist in Manchester or in London?
region From which airport will you depart?
region Do you need this for England only or for the whole of the UK?
region What part of the city is most convenient for you?
region Where will the wedding take place?
region Is the house in an urban or a rural area?
region Could you share your location?
region Are you asking about the northern or the southern part of the state?
region In what country did you get your license?
region Which countries would you like to compare?
region Do you have a preferred neighborhood, like Brooklyn or Queens?
time What dates are you planning to be in Rome?
time Do you want this week's chart or last week's?
time Which period of Chinese history do you mean?
time How old can the articles be?
time Are you looking for morning or evening classes?
time Since when have you been insured?
time For which quarter do you need the GDP of Germany?
region+time Which region's harvest, and in which season?
time+region When and in which city was the photo taken?
time+region Could you tell me the year and the country of the coin?
region+time What destination and travel month do you have in mind?
region+time Do you want it for a certain state and a certain tax year?
region+time Where did you buy it and how long ago?
time+region What day and place suit you for the meeting?
region+time In which district, and for what school year?
region+more Which city are you in, and what is your budget?
more+region What kind of museum, and in which part of town?
time+more Which year and which model of the phone do you mean?
more+time What type of ticket do you want, and for what date?
more By "country" do you mean the music genre or nations?
more Which area of mathematics do you want to study?
more Do you mean the state of the art or an overview of the history?
more Is your question about place value or about decimals?
more Do you want a map of the stars or of the planets?
"""
)
